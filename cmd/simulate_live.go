package cmd

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/pflag"

	"backlog/backlog"
	"backlog/backlog/simulate"
	"backlog/tiers"
)

// LiveOptions are the flags of simulate that look at the table as it is.
type LiveOptions struct {
	Live   bool
	Assume string
	Now    nowFlag
}

func (o *LiveOptions) AddFlags(f *pflag.FlagSet) {
	f.BoolVar(&o.Live, "live", false, "show what the schedule does with the records of the table, which is only read")
	f.StringVar(&o.Assume, "assume", "fail", "how attempts at them end: fail, succeed, p=`SHARE` or outage=LENGTH")
	o.Now.AddFlags(f)
}

// assume completes the workload by how its attempts end.
func (o *LiveOptions) assume(w *simulate.Workload) (poison bool, err error) {
	how, value, valued := strings.Cut(o.Assume, "=")
	if valued && (how == "fail" || how == "succeed") {
		return false, usagef("--assume: %s takes no value, and %q gives it one; an outage is outage=2h, a chance is p=0.3", how, o.Assume)
	}
	switch how {
	case "fail":
		return true, nil
	case "succeed":
		w.Success = 1
		return false, nil
	case "p":
		w.Success, err = parseShare("--assume", value)
		return false, err
	case "outage":
		d, err := tiers.ParseDuration(value)
		if err != nil || d <= 0 {
			return false, usagef("--assume: %q is not a duration; write it as in outage=2h", value)
		}
		w.Success = 1
		w.Outages = []simulate.Outage{{From: w.From, To: w.From.Add(d)}}
		return false, nil
	}
	return false, usagef("--assume: %q is not one of fail, succeed, p=0.3, outage=2h", o.Assume)
}

// live simulates the table's own records.
func (o *SimulateOptions) live(ctx context.Context, g *globals, length string) error {
	_, now, err := o.Now.clock()
	if err == nil {
		err = checkYear("--now", now)
	}
	if err != nil {
		return err
	}
	d, err := parseLength(length, "24h")
	if err != nil {
		return err
	}
	w := &simulate.Workload{From: now.UTC(), To: now.UTC().Add(d), Seed: o.Seed, Records: []simulate.Record{}}
	poison, err := o.assume(w)
	if err != nil {
		return err
	}
	cfg, err := g.load()
	if err != nil {
		return err
	}
	c, err := o.course(g, w)
	if err != nil {
		return err
	}
	defer c.close()
	c.options.Ticks = true
	ctx, stop := stopOnSignal(ctx)
	defer stop.close()
	a, err := g.wireReader(ctx, cfg, newLog(cfg.Log, g.err), now)
	if err != nil {
		return err
	}
	defer a.close()
	left, err := o.liveRecords(ctx, a, w, now, poison, c.gauge.reading())
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("stopped after %s of the table: there are no figures yet", plural(len(w.Records)+left, "pending row"))
	case err != nil:
		return err
	}
	return o.simulate(ctx, g, c, func(all []simulated) error {
		if left > 0 {
			fmt.Fprintf(g.err, "backlog: %s without a date that can be read: left out, as passes do\n", plural(left, "pending row"))
		}
		return o.printLive(g, w, all)
	})
}

// liveRecords adds the table's pending records to the workload, in the order of
// insertion, and returns how many were left out. It calls row with each.
func (o *SimulateOptions) liveRecords(ctx context.Context, a *app, w *simulate.Workload, now time.Time, poison bool, row func()) (left int, err error) {
	err = a.table.EachPending(ctx, now, func(r backlog.Row) {
		row()
		if r.Unreadable != nil || r.Inserted.IsZero() && r.NoDate == "skip" {
			left++
			return
		}
		w.Records = append(w.Records, simulate.Record{
			Inserted: r.Inserted, Oldest: r.NoDate == "oldest", Eligible: r.Eligible, Expires: r.Expires,
			Failed: r.Standing == backlog.StandingError, Retry: r.Retry, Poison: poison, Seed: seedOf(o.Seed, r.Key),
		})
	})
	slices.SortStableFunc(w.Records, func(a, b simulate.Record) int { return a.Inserted.Compare(b.Inserted) })
	return left, err
}

// seedOf makes the luck of a record its own, whatever else is in the table.
func seedOf(seed uint64, k backlog.Key) uint64 {
	h := fnv.New64a()
	fmt.Fprintf(h, "%d %v", seed, k)
	return h.Sum64()
}

// liveJSON is what simulate --live prints: that of a workload, and the ticks.
type liveJSON struct {
	workloadJSON
	Ticks []liveTick `json:"ticks"`
}

type liveTick struct {
	At       stamp  `json:"at"`
	Tier     string `json:"tier"`
	Attempts int    `json:"attempts"`
}

func (s *simulated) ticks() []liveTick {
	list := make([]liveTick, 0, len(s.ByTick))
	for _, at := range slices.SortedFunc(maps.Keys(s.ByTick), time.Time.Compare) {
		list = append(list, liveTick{stamp(at), s.ByTick[at].Tier, s.ByTick[at].Attempts})
	}
	return list
}

func (o *SimulateOptions) printLive(g *globals, w *simulate.Workload, all []simulated) error {
	asJSON := func(s simulated) liveJSON { return liveJSON{workloadOf(s, o.Seed), s.ticks()} }
	switch {
	case o.JSON.on && o.Diff != "":
		return g.printDiffJSON(all[0], all[1], o.Seed)
	case o.JSON.on && o.Compare == "":
		return printJSON(g.out, asJSON(all[0]))
	case o.JSON.on:
		return printJSON(g.out, each(all, asJSON))
	case o.CSV:
		return g.printSeries(all)
	case o.Diff != "":
		return g.printDiff(all[0], all[1])
	}
	g.printf("%s in the table, assuming that attempts %s, from %s to %s.\n\n", plural(len(w.Records), "pending record"), assumed(o.Assume), when(w.From), when(w.To))
	if err := g.printFigures(all); err != nil {
		return err
	}
	for _, s := range all {
		if err := errors.Join(g.printTiers(s), g.printDead(s)); err != nil {
			return err
		}
	}
	g.printMarks(all)
	return nil
}

func assumed(how string) string {
	switch word, value, _ := strings.Cut(how, "="); word {
	case "fail", "succeed":
		return word
	case "p":
		return "succeed with a chance of " + value
	default:
		return "fail for " + value + " and succeed then"
	}
}

// printTiers sums up the ticks by tier.
func (g *globals) printTiers(s simulated) error {
	type sum struct{ ticks, attempts, most int }
	sums := make(map[string]sum)
	for _, t := range s.ticks() {
		x := sums[t.Tier]
		sums[t.Tier] = sum{x.ticks + 1, x.attempts + t.Attempts, max(x.most, t.Attempts)}
	}
	g.printf("\n%s: passes that find something\n", shown(s.name))
	w := tabwriter.NewWriter(g.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "TIER\tPASSES\tCALLS\tMOST IN ONE")
	for _, t := range s.schedule.Tiers() {
		x := sums[t.Name]
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\n", shown(t.Name), x.ticks, x.attempts, x.most)
	}
	return w.Flush()
}

// printDead tells when records are tried no more.
func (g *globals) printDead(s simulated) error {
	if s.Dead == 0 {
		return nil
	}
	g.printf("\n%s: too old, expired or given up\n", shown(s.name))
	w := tabwriter.NewWriter(g.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "BY\tRECORDS")
	series := condensed(s.Series, 12)
	for i, b := range series {
		if b.Dead == 0 {
			continue
		}
		end := s.to
		if i+1 < len(series) {
			end = series[i+1].At
		}
		fmt.Fprintf(w, "%s\t%d\n", when(end), b.Dead)
	}
	return w.Flush()
}
