#!/bin/sh
# Runs every fuzz target for a while. Called by make fuzz.
set -eu
go=$1 time=$2
for file in $(grep -rlE '^func Fuzz' --include='*_test.go' .); do
	for target in $(sed -n 's/^func \(Fuzz[A-Za-z0-9]*\)(.*/\1/p' "$file"); do
		$go test -run '^$' -fuzz "^$target\$" -fuzztime "$time" "./$(dirname "$file")"
	done
done
