#!/bin/sh
# Kills daemons, passes by hand, handlers and workers N times at random instants, lets standbys
# take over from leaders that are killed, cut off or frozen, and kills source, daemon and worker
# at each arrow to RabbitMQ. Prints an account, and what must not have happened.
# Called by make kills.
set -eu
go=$1 n=$2
failed=$(mktemp)
trap 'rm -f "$failed"' EXIT
# One in 25 of them is a kill between the program and RabbitMQ: at 28 arrows and places.
{ BACKLOG_KILLS=$n BACKLOG_TORTURE=$(((n + 699) / 700)) $go test -v -count=1 -timeout=24h -run "${3:-^(TestCrash|TestSourceKilled|TestWorkers)$}" ./cmd 2>&1 || echo yes >"$failed"; } |
	grep --line-buffered -vE '^ *(=== |--- PASS|PASS$)'
[ ! -s "$failed" ]
