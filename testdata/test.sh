#!/bin/sh
# Runs every test and says at the end what was skipped. Called by make test.
#
# In CI no test may be skipped, and what several goroutines do runs under the race
# detector. That goes with the SQLite driver in C, into which it does not look: the other
# one is some 100,000 lines of Go, without a race and ten times slower under its eyes. What
# computes for long on one goroutine, such as most of the conformance suite, runs without
# it, with the driver in Go; the suite on SQLite with the one in C as well.
set -eu
go=$1 cgo=$2
out=$(mktemp)
trap 'rm -f "$out" "$out".*' EXIT
flags='-shuffle=on -timeout=30m'
# What runs with both drivers: kills, and daemons of scripts.
drivers='TestSQLite|TestCrash|TestScript/^(run|source|metrics|web)'
alone='^Example|TestModels|TestTooManySnoozes|TestProbeOfAColumnThatIsGone|TestSickRows|TestFormsBesideEachOther|TestPagesOfTextsInManyWays|TestClosed|TestHostile|TestLoopTriesEachRecord|TestRunStops|TestProgress$|TestSimulateShowsNoProgress|TestDateutil|TestRunIsTheNaiveWalk|TestSuiteCatchesMutants|TestDueAgreesWithThePolicy|TestExplainAgreesWithPasses|PlansOverDays|TestTooLarge$|PagesAreRead$|TestPlansOfRetries$|TestMySQLPlans$|TestPostgresPlans$|TestWaitsBesideDates$|TestMySQLPartitions$|TestImports|TestClockIsAnArgument'
wide='TestWidePassDelaysNoFresh/^wide=2|TestWidePassDelaysNoFresh/./././fresh=50'
# What goes through hours of a daemon, one event after the other.
policies='TestSimulationIsTheDaemon|TestMissedTicksAreOnePass'
# Packages that compute much, or start programs, and no goroutines but those of package backlog.
whole='packaging|simulate|advise|propose|recur'
# The conformance suite: on SQLite, on servers, what of that is for one goroutine, and on further forms of times.
sqlite='TestStore$|TestStoreOfAPool$'
servers='^Test(PostgresStore|StoreOnMySQL|StoreOfAPoolOnServers)$'
lone='(Walk|Random|Snooze|Expire|Group|Keys|Settle|Guard|Pending|Refused|Errors|NotDue|Cursor|Attempts|Overdue|Count(skip|oldest|newest)?$|(^|s|p)Twice)'
one="$servers/./($lone|Promises)|^TestStoreOfAPool\$/./($lone|Promises)|^TestStore\$/^(seconds|Z|zone|unix|julian|sparse)/$lone"
# Walks under a counting policy, once more with another form of times or over another pool.
walks='(Counted|Planned).*(Walk|Random)'
again="TestStore\$/^(Z|zone|unix|julian|sparse)/$walks|TestStoreOfAPool\$/./$walks"
forms='TestPostgresStore/^(text|unix|timestamp[^t])|TestStoreOnMySQL/^(DATETIME.|TIMESTAMP)|TestStoreOfAPoolOnServers'

status=0
run() {
	echo "$go test $*"
	# shellcheck disable=SC2086
	{ $go test -v "$@" 2>&1 || echo "exit $?" >>"$out.failed"; } |
		tee -a "$out" | grep --line-buffered -vE '^ *(=== |--- PASS|PASS$|--- SKIP)' || true
}
# The manifests of docs/kubernetes.md, in a module of its own. The types are a hundred
# thousand lines of Go: without optimization a quarter of the time is saved.
manifests() { (cd testdata/kubernetes && run -shuffle=on '-gcflags=k8s.io/...=-N -l' .); }
# shellcheck disable=SC2086
if [ -z "${CI:-}" ]; then
	run $flags ./...
	CGO_ENABLED=0 manifests
	[ "$cgo" != yes ] || run $flags -tags cgo_sqlite -run "$drivers|$sqlite" ./backlog/table/...
else
	flags="$flags -vet=off" # make lint has done that
	flags="$flags -p 2 -parallel 8" # and the tests of the program beside all others: they wait more than they compute
	# The first of the skipped that a test may belong to decides: those that name it at once come first.
	raced() { run -race $flags -tags cgo_sqlite -skip "$alone|$forms|$one|$wide|$policies" "$@"; }
	$go build -race -tags cgo_sqlite ./... # once: two that want the same at the same time both compile it
	raced ./cmd >"$out.cmd" &
	raced ./backlog/table $($go list ./... | grep -vE "/(cmd|$whole)\$") # the longest first
	# A pool in memory differs from one on a file by its connections alone, not by the driver, and
	# to the driver one form of text is like another.
	run $flags -tags cgo_sqlite -run "$sqlite" -skip "TestStoreOfAPool\$/^memory|TestStore\$/^(Z|zone|sparse)|$again" ./backlog/table
	export CGO_ENABLED=0 GOFLAGS="$($go env GOFLAGS) -trimpath" # as make build has it, and make lint
	# A walk under a counting policy runs over a pool on a file, and not once more over one in memory. Of the suite
	# on servers only what did not run raced is left: the driver is the same.
	run $flags -run "$drivers|$alone|$wide|$policies|$sqlite|$forms|$one" -skip "TestStoreOfAPool\$/^memory/$walks" ./backlog/table ./cmd ./backlog/memory $(grep -rlE --include='*_test.go' "^func \w*(TestSQLite|$(echo "$alone" | tr -d ^$)|${wide%%/*})" . | xargs -n 1 dirname | sort -u | grep -vE "/($whole)\$")
	manifests
	run $flags $($go list ./... | grep -E "/($whole)\$")
	wait
	cat "$out.cmd"
fi
[ ! -e "$out.failed" ] || status=1

skipped=$(grep -E '^ *--- SKIP' "$out" | sed 's/ (.*//; s/^ *--- SKIP: //' | sort -u || true)
if [ -n "$skipped" ]; then
	echo "skipped:"
	echo "$skipped" | sed 's/^/  /'
	if [ -n "${CI:-}" ]; then
		echo "in CI no test may be skipped"
		status=1
	fi
fi
if [ "$status" != 0 ]; then
	echo "failed:"
	grep -E '^ *--- FAIL|^FAIL[[:space:]].|^panic: ' "$out" | sed 's/^/  /' || echo "  nothing that a test reports: see what was printed above"
fi
[ "$cgo" = yes ] || echo "not run, for want of a C compiler: the tests with -tags cgo_sqlite"
exit $status
