// Command peers drains the same number of records with libraries that do similar work, with backlog and
// with a loop written by hand, on the same servers in turn, and prints one table of their speeds. Its
// handlers do nothing but note which record they were given. Called by make peers.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"runtime/debug"
	"syscall"
	"time"
)

// A peer is something that drains a store.
type peer struct {
	name   string
	module string // its version is printed
	store  *store
	drain  func(ctx context.Context, n int) (run, error)
}

// A run is what one drain measured. All of it is read while the drain's connection is open.
type run struct {
	took       time.Duration // from the start of the workers until the last outcome is written
	version    string        // of the database
	durability string        // the settings that decide what a power failure costs
}

// The peers are in the order of the table. The first of each store is what the others are compared with.
var peers = []peer{
	{"bare loop", "github.com/jackc/pgx/v5", postgres, drainBarePostgres},
	{"backlog", "backlog", postgres, drainOursPostgres},
	{"River", "github.com/riverqueue/river", postgres, drainRiver},
	{"bare loop", "modernc.org/sqlite", sqlite, drainBareSQLite},
	{"backlog", "backlog", sqlite, drainOursSQLite},
	{"goqite", "maragu.dev/goqite", sqlite, drainGoqite},
	{"goqite, groups", "maragu.dev/goqite", sqlite, drainGoqiteGroups},
	{"backlite", "github.com/mikestefanello/backlite", sqlite, drainBacklite},
	{"bare loop", "github.com/redis/go-redis/v9", redisServer, drainBareRedis},
	{"asynq", "github.com/hibiken/asynq", redisServer, drainAsynq},
}

// drainTimeout ends a drain that lost a record.
const drainTimeout = 20 * time.Minute

func main() {
	n := flag.Int("n", 300_000, "records of each drain")
	rounds := flag.Int("runs", 3, "drains of each peer")
	only := flag.String("run", "", "only the peers whose name this regular expression matches, and the bare loops")
	flag.Parse()
	pattern, err := regexp.Compile(*only)
	if err != nil || *n < 1 || *rounds < 1 {
		flag.Usage()
		os.Exit(2)
	}
	debug.SetGCPercent(400) // as the program backlog has it
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := measure(ctx, *n, *rounds, pattern); err != nil {
		fmt.Fprintln(os.Stderr, "peers:", err)
		os.Exit(1)
	}
}

// measure lets the peers drain in turn, so that other work on the machine hits all of them.
func measure(ctx context.Context, n, rounds int, pattern *regexp.Regexp) error {
	chosen := choose(ctx, pattern)
	if len(chosen) == 0 {
		return errors.New("nothing is left to measure")
	}
	runs := make([][]run, len(chosen))
	for round := range rounds {
		for i, p := range chosen {
			r, err := drain(ctx, p, n)
			if err != nil {
				return fmt.Errorf("%s on %s: %w", p.name, p.store.name, err)
			}
			fmt.Fprintf(os.Stderr, "%d/%d %s on %s: %.0f records/s\n", round+1, rounds, p.name, p.store.name, r.rate(n))
			runs[i] = append(runs[i], r)
		}
	}
	printTable(os.Stdout, n, chosen, runs)
	return nil
}

// choose returns the peers that match the pattern and whose store can be used.
func choose(ctx context.Context, pattern *regexp.Regexp) []peer {
	var chosen []peer
	unusable := make(map[*store]bool)
	for _, s := range []*store{postgres, sqlite, redisServer} {
		if err := s.check(ctx); err != nil {
			fmt.Fprintf(os.Stderr, "%s is skipped: %v\n", s.name, err)
			unusable[s] = true
		}
	}
	for _, p := range peers {
		if !unusable[p.store] && (p.name == "bare loop" || pattern.MatchString(p.name)) {
			chosen = append(chosen, p)
		}
	}
	return chosen
}

func drain(ctx context.Context, p peer, n int) (run, error) {
	ctx, cancel := context.WithTimeout(ctx, drainTimeout)
	defer cancel()
	debug.FreeOSMemory() // what the last peer has left is not collected during this drain
	return p.drain(ctx, n)
}

func (r run) rate(n int) float64 {
	return float64(n) / r.took.Seconds()
}
