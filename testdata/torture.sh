#!/bin/sh
# Kills source, daemon and worker N times at each arrow between them and RabbitMQ, kills
# nodes of a cluster, and has the broker refuse, stop and hang. Prints an account of every
# message and row.
# Called by make torture.
set -eu
go=$1 n=$2
failed=$(mktemp)
trap 'rm -f "$failed"' EXIT
{ BACKLOG_TORTURE=$n $go test -v -count=1 -timeout=6h -run "${3:-^(TestSourceKilled|TestWorkers|TestBroker.*)$}" ./cmd 2>&1 || echo yes >"$failed"; } |
	grep --line-buffered -vE '^ *(=== |--- PASS|PASS$)'
[ ! -s "$failed" ]
