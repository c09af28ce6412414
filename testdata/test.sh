#!/bin/sh
# Runs every test, with the race detector where there is a C compiler for it,
# and says at the end what was skipped. Called by make test.
#
# Where most of the time is spent in SQLite, the race detector goes with the
# driver in C, which it does not look into: the other one is some 100,000 lines
# of Go, without a race and ten times slower under its eyes.
set -eu
go=$1 cgo=$2
out=$(mktemp)
trap 'rm -f "$out"' EXIT
flags='-shuffle=on -timeout=30m'
sqlite='./backlog/table/... ./backlog/simulate/...'
others=$($go list ./... | grep -v -e '/backlog/table$' -e '/backlog/simulate$')

status=0
run() {
	echo "$go test $*"
	# shellcheck disable=SC2086
	{ $go test -v "$@" 2>&1 || echo "exit $?" >>"$out.failed"; } |
		tee -a "$out" | grep -vE '^ *(=== |--- PASS|PASS$|--- SKIP)' || true
	if [ -e "$out.failed" ]; then
		rm -f "$out.failed"
		status=1
	fi
}
# shellcheck disable=SC2086
if [ "$cgo" = yes ]; then
	run -race $flags $others
	run $flags $sqlite
	# What has to do with servers has been seen by then, and so have the forms
	# of time and the program under the race detector.
	servers='Postgres|MySQL|ServerFaults|LeaderIsCutOff|FrozenLeader|LostLock|NoHarm|OnServers'
	run -race $flags -skip "$servers|TestStore/[^s]" -tags cgo_sqlite $sqlite
	run $flags -skip "$servers" -tags cgo_sqlite ./cmd/...
else
	run $flags ./...
fi

skipped=$(grep -E '^ *--- SKIP' "$out" | sed 's/ (.*//; s/^ *--- SKIP: //' | sort -u || true)
if [ -n "$skipped" ]; then
	echo "skipped:"
	echo "$skipped" | sed 's/^/  /'
	if [ -n "${CI:-}" ]; then
		echo "in CI no test may be skipped"
		status=1
	fi
fi
[ "$cgo" = yes ] || echo "not run, for want of a C compiler: the race detector, the tests with -tags cgo_sqlite"
exit $status
