#!/bin/bash
# Checks the models in testdata/model by spin. Called by make model.
#
# Each model must have no error, and each mutant must have one: it has a constant of the program that
# is one second less, or lacks a guard of the program, or counts a documented exception as an error.
# "short" checks each model once, without the largest checks, and a mutant of each.
set -eu
cd "$(dirname "$0")/model"
short=${1:-}
for command in spin cc; do
	command -v $command >/dev/null || { echo "there is no $command, which the models need; install Debian's packages spin and gcc" >&2; exit 1; }
done
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

# Who takes part, and how much goes wrong.
all='-DFAULTS=1'                         # three daemons and once
apart='-DAPART -DDAEMONS=1 -DFAULTS=2'   # a daemon, and once on another machine
beside='-DDAEMONS=1 -DFAULTS=1'          # a daemon, and once on its machine
daemons='-DDAEMONS=2 -DONCES=0 -DFAULTS=2'
few='-DDAEMONS=2 -DFAULTS=1'

jobs() { # a line for each check: what must come of it, how it is made, the model, its definitions
	if [ -n "$short" ]; then
		echo "pass safe lock $beside"
		echo "pass safe ticks"
		echo "pass live row"
		echo "fail safe lock $beside -DTAKE_OVER=4"
		echo "fail safe ticks -DNO_OWE"
		echo "fail live row -DNO_STATUS"
		return
	fi
	echo "pass safe lock $daemons"
	echo "pass safe lock $all"
	echo "pass safe lock $apart"
	echo "pass safe lock $beside"
	echo "pass safe ticks"
	echo "pass live ticks -DKILLS=1 -DTICKS=2"
	echo "pass live row"
	for mutant in GRACE=3 TAKE_OVER=4 PROBE=1 QUERY=1 NO_FILE; do
		echo "fail safe lock $beside -D$mutant"
	done
	for mutant in NO_DOUBT_LOCKED NO_DOUBT_UNAVAILABLE NO_DOUBT_LOST NO_KILL AGE_OF_ANSWER; do
		echo "fail safe lock $apart -D$mutant"
	done
	for mutant in NO_WAIT NO_FIRST_PROBE NO_RECENT SIGSTOP; do
		echo "fail safe lock $few -D$mutant"
	done
	echo "fail safe lock $daemons -DNO_RECENT_LEADER"
	for mutant in NO_STATUS NO_COUNT NO_EXACT NO_UNSURE NO_INTERRUPTED NO_NEXT_PASS; do
		echo "fail live row -D$mutant"
	done
	for mutant in NO_OWE TWO_UPDATES NO_PASS_FOR NO_CUT_SHORT NO_DELAYED NO_DELAY_APART NO_FSYNC NO_KEEP_SKIPPED; do
		echo "fail safe ticks -D$mutant"
	done
	for mutant in NO_RESTORE NO_OWE_AGAIN; do
		echo "fail live ticks -D$mutant"
	done
}

check() { # check WANT KIND MODEL DEFINITION ...
	want=$1 kind=$2 model=$3
	shift 3
	work=$(mktemp -d "$dir/XXXXXX")
	cp "$model.pml" "$work"
	cd "$work"
	spin -a "$@" "$model.pml" >spin.out || { cat spin.out; return 1; }
	optimize=-O2
	[ "$want" = pass ] || optimize=-O0 # its error is found sooner than a compiler optimizes
	if [ "$kind" = safe ]; then
		cc -w $optimize -DSAFETY -DNOCLAIM -DVECTORSZ=2048 -o pan pan.c
		./pan -E -n -m1000000 -w22 >out
	else
		cc -w $optimize -DNFAIR=3 -o pan pan.c
		./pan -a -f -n -m1000000 -w22 >out
	fi
	errors=$(sed -n 's/.*errors: *//p' out)
	grep -q 'max search depth too small' out && errors=unknown
	states=$(sed -n 's/^ *\([0-9.e+]*\) states, stored.*/\1/p' out)
	seconds=$(sed -n 's/.*elapsed time \([0-9.]*\) seconds/\1/p' out)
	echo "$model $kind $*: $states states, ${seconds:-0} s, errors: $errors"
	case $want$errors in
	pass0 | fail[1-9]*) ;;
	pass*) echo "the model has an error: $model $*"; return 1 ;;
	*) echo "the mutant survives: $model $*"; return 1 ;;
	esac
}
export -f check
export dir

# Two at a time; each says in one write what came of it.
jobs | xargs -P 2 -I '{}' bash -c 'set -u; out=$(check {}) || { echo "$out"; exit 1; }; echo "$out"' || {
	echo "the models do not hold" >&2
	exit 1
}
