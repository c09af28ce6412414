#!/bin/sh
# Runs every fuzz target for a while, and with QUIET on until that time has brought no new
# coverage. Says of each how long it ran. Called by make fuzz.
set -eu
go=$1 time=$2
out=$(mktemp)
trap 'rm -f "$out"' EXIT

# fuzz runs a target of a package for a time, and prints what it says at its end.
fuzz() {
	# By default it makes each new input shorter for a minute, in which it tries no other.
	# shellcheck disable=SC2086
	$go test -run '^$' -fuzz "^$2\$" -fuzztime "$3" -fuzzminimizetime 1s ${PARALLEL:+-parallel $PARALLEL} "$1" >"$out" 2>&1 || {
		cat "$out"
		exit 1
	}
	grep '^fuzz: elapsed' "$out" | tail -1 | sed "s/^fuzz:/$2:/"
}

# is_new reports whether the last run has brought what its corpus did not cover. The next run begins with that.
is_new() { grep '^fuzz: elapsed' "$out" | tail -1 | grep -q 'new interesting: [1-9]'; }

for file in $(grep -rlE '^func Fuzz' --include='*_test.go' .); do
	for target in $(sed -n 's/^func \(Fuzz[A-Za-z0-9]*\)(.*/\1/p' "$file" | grep -E "${RUN:-.}" || true); do
		package=./$(dirname "$file")
		fuzz "$package" "$target" "$time"
		[ -n "${QUIET:-}" ] || continue
		fuzz "$package" "$target" "$QUIET"
		while is_new; do
			fuzz "$package" "$target" "$QUIET"
		done
	done
done
