#!/bin/sh
# Runs the benchmarks. Those that compare report a ratio to a bare loop that ran
# in turn with ours; quote that, not the seconds. Called by make bench; with a
# third argument every benchmark runs once on few rows, to show that it still runs.
set -eu
go=$1 cgo=$2 short=${3:-}
bench() { echo "$go test $*"; $go test -run '^$' -benchtime=1x -timeout=60m "$@"; }
if [ -n "$short" ]; then
	# shellcheck disable=SC2046
	bench -vet=off -short -bench . $(grep -rl --include='*_test.go' '^func Benchmark' . | xargs -n 1 dirname | sort -u)
	exit
fi
bench -bench 'Exec/ratio' -benchtime=4000x ./backlog/handler/...
bench -bench 'Lines|HTTP' ./backlog/handler/...
bench -bench 'Once|Causes|ManyDue' ./cmd
bench -bench . ./backlog/table/...
bench -bench . ./backlog/memory ./backlog/simulate ./backlog/amqp
if [ "$cgo" = yes ]; then
	bench -tags cgo_sqlite -bench 'Pass$|PassMemory|Work' ./backlog/table/...
fi
