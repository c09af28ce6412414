#!/bin/sh
# Measures what grows with the table: fills SQLite tables of 10^4, 10^5, … 10^MAX rows and
# prints the table of docs/speed.md, a column for each of them, and wall times. Called by make growth, after
# make build. It needs sqlite3, curl and Python 3, and 80 bytes of disk for each row.
set -eu
go=$1 max=$2
for need in sqlite3 curl python3; do
	command -v $need >/dev/null || { echo "growth: there is no $need" >&2 && exit 1; }
done
backlog=$PWD/bin/backlog
dir=$(mktemp -d)
web=
trap '[ -z "$web" ] || kill "$web"; rm -rf "$dir"' EXIT
$go test -vet=off -c -o "$dir/bench" ./backlog/table
cd "$dir"

cat >schedule.yaml <<'EOF'
database: sqlite:mixed.db?synchronous=normal
table: {name: BACKLOG, id: id, status: status, inserted: date_inserted}
statuses: {new: NEW, error: ERROR, success: SUCCESS}
handler: {exec: ["true"], timeout: 30s}
state: state.json
log: {level: warn}
tiers:
  - {max_age: 1d, every: 5m}
  - {max_age: 7d, every: 1h}
  - {max_age: 30d, every: 12h}
  - {max_age: 360d, every: 1d}
EOF

# fill FILE ROWS STATUS NOW: rows that are spread evenly over the 300 days before NOW, the newest
# last. STATUS is an expression of i, the number of the row. The indexes are faster made afterwards.
fill() {
	echo "$2 rows: $1" >&2
	sqlite3 "$1" >fill.log <<-EOF
		PRAGMA synchronous = off;
		CREATE TABLE BACKLOG (id INTEGER PRIMARY KEY, status TEXT NOT NULL, date_inserted TEXT NOT NULL);
		WITH RECURSIVE s(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM s WHERE i < $2)
			INSERT INTO BACKLOG SELECT i, $3, datetime(strftime('%s', '$4') - ($2 - i) * 25920000.0 / $2, 'unixepoch') FROM s;
		PRAGMA journal_mode = wal;
	EOF
	"$backlog" init --database "sqlite:$1" >init.log
}

# measure FORMAT COMMAND ...: the command's wall time, its CPU time, both in ms, and its peak
# memory in MiB, each the median of five runs, or of fewer that take half a minute.
measure() {
	python3 - "$@" <<-'EOF'
		import os, statistics, subprocess, sys, time
		def run():
		    start = time.monotonic()
		    child = subprocess.Popen(sys.argv[2:], stdout=subprocess.DEVNULL)
		    _, status, used = os.wait4(child.pid, 0)
		    if status != 0:
		        sys.exit(f"{' '.join(sys.argv[2:])}: status {status}")
		    return (time.monotonic() - start) * 1000, (used.ru_utime + used.ru_stime) * 1000, used.ru_maxrss / 1024
		def show(x):
		    return f"{x:,.1f}" if x < 10 else f"{x:,.0f}"
		runs = []
		while len(runs) < 5 and sum(wall for wall, _, _ in runs) < 30_000:
		    runs.append(run())
		wall, cpu, memory = (show(statistics.median(column)) for column in zip(*runs))
		print(sys.argv[1].format(wall=wall, cpu=cpu, memory=memory))
	EOF
}

# cell FIGURE VALUE: adds a cell to the row of the figure.
cell() {
	echo "  $1: $2" >&2
	printf '%s\t%s\n' "$1" "$2" >>cells
}
cells() { # cells COMMAND ...: CPU time of the program, and the wall time in brackets
	cell "\`$*\`: CPU ms (wall ms)" "$(measure '{cpu} ({wall})' "$backlog" "$@")"
}

# The front page, once the rows are counted, as often as the other figures and once before.
# The count may take half a minute, and is given up then.
render() {
	port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
	auth="Authorization: Bearer $("$backlog" token)"
	"$backlog" web --listen "127.0.0.1:$port" 2>web.log &
	web=$!
	for _ in $(seq 200); do
		if curl -s -H "$auth" "http://127.0.0.1:$port/api/v1/status" | grep -q '"counted_at": *"'; then break; fi
		sleep 0.2
	done
	for _ in 1 2 3 4 5 6; do
		curl -sf -o page.html -H "$auth" -w '%{time_total}\n' "http://127.0.0.1:$port/"
	done | sed 1d | sort -n | awk 'NR == 3 {printf "%.1f\n", $1 * 1000}'
	kill "$web" && wait "$web" || true
	web=
}

head='| what |' line='| --- |' n=1000
for power in $(seq 4 "$max"); do
	n=${n}0 head="$head 10^$power rows |" line="$line --- |"

	fill mixed.db "$n" "CASE WHEN i % 10 = 0 THEN 'ERROR' WHEN i % ($n / 100) = 1 THEN 'NEW' ELSE 'SUCCESS' END" now
	cells once --max-age 360d --dry-run --max-records 1
	cells list --state failed
	cells status
	cells check --no-write
	cell 'the front page: ms' "$(render)"
	figures=$(measure '{cpu} ({wall}) {memory}' "$backlog" simulate --live --for 1d)
	cell '`simulate --live --for 1d`: CPU ms (wall ms)' "${figures% *}"
	cell '`simulate --live --for 1d`: peak memory in MiB' "${figures##* }"
	rm -f mixed.db*

	fill pending.db "$n" "'NEW'" 2026-01-01
	BENCH_PASS=$dir/pending.db ./bench -test.run '^$' -test.bench '^BenchmarkPassMemory$' -test.benchtime 1x >pass.log
	cell 'a pass over all rows: CPU µs per record' "$(awk '{for (i = 2; i <= NF; i++) if ($i == "cpu-µs/record") print $(i - 1)}' pass.log)"
	cell 'a pass over all rows: peak memory in MiB' "$(awk '{for (i = 2; i <= NF; i++) if ($i == "peak-MiB") print $(i - 1)}' pass.log)"
	rm -f pending.db*
done
echo "$head"
echo "$line"
awk -F '\t' '!($1 in row) {order[++rows] = $1} {row[$1] = row[$1] " " $2 " |"} END {for (i = 1; i <= rows; i++) print "| " order[i] " |" row[order[i]]}' cells
