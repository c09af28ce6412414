#!/bin/sh
# Runs every fuzz target for a while, and with QUIET on until that time has brought no input
# that reaches a statement of the project which none has reached before. The fuzzer's own word
# for a new input counts libraries as well, and how often a loop ran: it finds such inputs for
# days. Says of each target how long it ran, and how many blocks of statements it reaches.
# Called by make fuzz.
set -eu
go=$1 time=$2
out=$(mktemp)
inputs= # those of a target, while they lie among its files
trap 'rm -rf "$out" "$out".* ${inputs:+"$inputs"}' EXIT
trap 'exit 130' INT TERM

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

# reach writes the blocks of the project that the inputs found so far reach to a file. Go runs
# those again that lie in testdata/fuzz of the package.
reach() {
	found=$($go env GOCACHE)/fuzz/$($go list "$1")/$2
	inputs=$1/testdata/fuzz/$2
	[ ! -e "$inputs" ] || { echo "$inputs: is in the way" && exit 1; }
	mkdir -p "$inputs"
	[ ! -d "$found" ] || cp "$found"/* "$inputs"
	$go test -run "^$2\$" -coverpkg ./... -coverprofile "$out.profile" "$1" >"$out" 2>&1 || {
		cat "$out"
		exit 1
	}
	rm -rf "$inputs"
	rmdir -p "$1/testdata/fuzz" 2>/dev/null || true
	inputs=
	sed -n 's/ [1-9][0-9]*$//p' "$out.profile" | sort -u >"$3"
}

for file in $(grep -rlE '^func Fuzz' --include='*_test.go' .); do
	for target in $(sed -n 's/^func \(Fuzz[A-Za-z0-9]*\)(.*/\1/p' "$file" | grep -E "${RUN:-.}" || true); do
		package=./$(dirname "$file" | sed 's,^\./,,')
		fuzz "$package" "$target" "$time"
		[ -n "${QUIET:-}" ] || continue
		reach "$package" "$target" "$out.before"
		while
			fuzz "$package" "$target" "$QUIET"
			reach "$package" "$target" "$out.after"
			echo "$target: reaches $(wc -l <"$out.after") blocks, $(comm -13 "$out.before" "$out.after" | wc -l) of them for the first time"
			! cmp -s "$out.before" "$out.after"
		do
			mv "$out.after" "$out.before"
		done
	done
done
