package cmd

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"backlog/backlog"
	"backlog/backlog/config"
	"backlog/tiers"
)

// SimulateOptions are the flags of simulate.
type SimulateOptions struct {
	Policy   string
	Attempts int
	Life     bool
	Inserted string
	Seed     uint64
	JSON     jsonFlag
	WorkloadOptions
	LiveOptions
}

// mostAttempts keeps an answer within what anybody reads, or a program.
const mostAttempts = 1_000_000

func (o *SimulateOptions) AddFlags(f *pflag.FlagSet) {
	f.StringVar(&o.Policy, "policy", "", "show the `POLICY`: its name, or YAML with its settings (default: the configured one)")
	f.IntVar(&o.Attempts, "attempts", 12, "show the first `N` attempts at a record that never succeeds")
	f.BoolVar(&o.Life, "life", false, "show how often each tier tries a record that never succeeds")
	f.StringVar(&o.Inserted, "inserted", "", "when the record of --life is inserted: `TIME`, RFC 3339 (default: now)")
	f.Uint64Var(&o.Seed, "seed", 1, "draw random delays by the `NUMBER`; the same one draws the same")
	o.JSON.AddFlags(f)
	o.WorkloadOptions.AddFlags(f)
	o.LiveOptions.AddFlags(f)
}

func newSimulate(g *globals) *cobra.Command {
	var o SimulateOptions
	c := &cobra.Command{
		Use:   "simulate",
		Short: "Show what a schedule or a policy does, without waiting for it",
		Long: `Simulate shows what becomes of one record that never succeeds.

With --life: at which ticks of the schedule it is tried, how often in each tier,
and when no more. That is the default where age alone decides.

With --attempts: how long after its insertion each attempt takes place, and the
delay before it. These are the delays of the policy alone. In earnest a pass
comes only when a tier ticks, and an attempt waits for that as well.

With --live: what the schedule does with the records that are in the table now,
from now on: how often each tier calls the service, and what grows too old. The
table is only read.

With --arrivals: what a schedule makes of a modelled workload, without any
database: how often the service is called and in vain, at most in one minute,
how many records wait, and how long beyond the end of an outage. The caps, the
rate and the concurrency are the configured ones. A call ends at once, unless
--call-time says how long it takes; then passes may overlap as in earnest.
--down is a time in which backlog does not run: the ticks that it misses are one
pass when it starts again.

    backlog simulate --arrivals 1000/h --poison 1% --outage 6h+2h --for 30d
    backlog simulate --arrivals 100/h --outage 6h+2h --compare progressive,fibonacci
    backlog simulate --arrivals 100/h --call-time 2s --diff other.yaml

The policy is the configured one, or another by its name or with its settings:

    backlog simulate --policy fibonacci
    backlog simulate --policy 'list: [0, 1m, 5m]' --attempts 4
    backlog simulate --policy '{exponential: {interval: 1m, base: 3}}' --seed 7` + exitStatusHelp,
		Args: noArgs,
	}
	c.RunE = ran(func(ctx context.Context) error {
		if err := checkForm(o, c.Flags()); err != nil {
			return err
		}
		return runSimulate(ctx, o, g, c.Flags().Changed("attempts"))
	})
	o.AddFlags(c.Flags())
	return c
}

// checkForm refuses flags that would be of no effect, and those in which there
// is nothing, as in a variable that is not set: without them it would be another
// question.
func checkForm(o SimulateOptions, f *pflag.FlagSet) error {
	for _, name := range strings.Fields("policy inserted arrivals for compare diff plot") {
		if x := f.Lookup(name); x.Changed && strings.TrimSpace(x.Value.String()) == "" {
			return usagef("--%s: there is nothing in it; give it a value or leave it out", name)
		}
	}
	for _, x := range []struct {
		flags string
		of    string
		ok    bool
	}{
		{"poison success outage from", "--arrivals", o.Arrivals != ""},
		{"assume", "--live", o.Live},
		{"for call-time down compare diff plot", "--arrivals or --live", o.Arrivals != "" || o.Live},
		{"now", "--live or --life", o.Arrivals == "" && !f.Changed("attempts")},
	} {
		for _, name := range strings.Fields(x.flags) {
			if f.Changed(name) && !x.ok {
				return usagef("--%s belongs to %s", name, x.of)
			}
		}
	}
	if o.CSV && o.JSON.on {
		return usagef("--csv and --json are two forms of one answer: ask for one")
	}
	if o.Compare != "" && o.Policy != "" {
		return usagef("--compare names the policies itself: --policy would be of no effect")
	}
	if o.Plot != "" {
		_, err := plotFormat(o.Plot)
		return err
	}
	return nil
}

func runSimulate(ctx context.Context, o SimulateOptions, g *globals, attempts bool) error {
	if o.Live {
		if o.Arrivals != "" || attempts || o.Life || o.Inserted != "" {
			return usagef("--live is about the records of the table, --arrivals, --attempts, --life and --inserted are about others: ask for one")
		}
		return o.live(ctx, g, cmp.Or(o.For, "24h"))
	}
	if o.Arrivals != "" {
		if attempts || o.Life || o.Inserted != "" {
			return usagef("--arrivals models a workload, --attempts, --life and --inserted are about one record: ask for one")
		}
		return o.workload(ctx, g)
	}
	if attempts && (o.Life || o.Inserted != "") {
		return usagef("--attempts shows the delays of a policy, --life and --inserted what a schedule makes of them: ask for one")
	}
	if o.Attempts < 1 || o.Attempts > mostAttempts {
		return usagef("--attempts: %d is not from 1 to %d", o.Attempts, mostAttempts)
	}
	configured, err := o.policy(g)
	if err != nil {
		return err
	}
	p, err := newPolicy(configured)
	if err != nil {
		return usagef("policy %s: %w", configured.Name, err)
	}
	random := rand.New(rand.NewPCG(o.Seed, 0))
	if o.Life || o.Inserted != "" || p == nil && !attempts {
		cfg, err := g.load()
		if err != nil {
			return err
		}
		return o.life(ctx, g, cfg.Tiers, p, random.Float64)
	}
	switch {
	case p == nil:
		return usagef("the policy %s has no delays to show: a record is tried whenever a tier ticks that is wide enough for its age", configured.Name)
	case p.Never:
		return usagef("the policy %s has no delays to show: a record is tried once and never again", configured.Name)
	}
	switch {
	case o.JSON.on:
		return printCurveJSON(g.out, p.Name, curve(p, o.Attempts, random.Float64))
	case o.CSV:
		return printCurveCSV(g.out, curve(p, o.Attempts, random.Float64))
	}
	return printCurve(g.out, p, curve(p, o.Attempts, random.Float64))
}

// policy returns the policy that is asked for.
func (o *SimulateOptions) policy(g *globals) (config.Policy, error) {
	if o.Policy == "" {
		cfg, err := g.load()
		if err != nil {
			return config.Policy{}, err
		}
		return cfg.Policy, nil
	}
	p, err := config.ParsePolicy(o.Policy, policySpecs()...)
	if err != nil {
		return p, usagef("--policy: %w", err)
	}
	return p, nil
}

// An attempt is one at a record that never succeeds.
type attempt struct {
	N     int  `json:"n"`             // from 1
	At    span `json:"at_seconds"`    // since the record's insertion
	Delay span `json:"delay_seconds"` // since the attempt before
	Least span `json:"min_seconds"`   // the bounds between which the delay was drawn
	Most  span `json:"max_seconds"`
}

// curve returns the first attempts, at most count and no more than the policy
// grants. random returns numbers that are uniform in [0, 1).
func curve(p *backlog.Policy, count int, random func() float64) iter.Seq[attempt] {
	return func(yield func(attempt) bool) {
		a := attempt{N: 1}
		for yield(a) && a.N < count && !p.GivenUp(a.N) {
			least, most := p.Wait(a.N)
			delay := p.Draw(a.N, random())
			a = attempt{a.N + 1, a.At.plus(delay), span{}.plus(delay), span{}.plus(least), span{}.plus(most)}
		}
	}
}

// printCurve prints the attempts for people.
func printCurve(w io.Writer, p *backlog.Policy, attempts iter.Seq[attempt]) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	drawn := false // whether there is anything to choose from
	if least, most := p.Wait(1); least != most {
		drawn = true
	}
	header := "ATTEMPT\tAFTER\tDELAY"
	if drawn {
		header += "\tDRAWN FROM"
	}
	fmt.Fprintln(t, header)
	var last int
	for a := range attempts {
		fmt.Fprintf(t, "%d\t%v\t%v", a.N, a.At, a.Delay)
		if drawn && a.N > 1 {
			fmt.Fprintf(t, "\t%v to %v", a.Least, a.Most)
		}
		fmt.Fprintln(t)
		last = a.N
	}
	if err := t.Flush(); err != nil || !p.GivenUp(last) {
		return err
	}
	_, err := fmt.Fprintf(w, "The record is given up after attempt %d.\n", last)
	return err
}

// printCurveJSON prints the attempts one by one: there may be many.
func printCurveJSON(out io.Writer, policy string, attempts iter.Seq[attempt]) error {
	w := bufio.NewWriter(out)
	fmt.Fprintf(w, `{"policy":%q,"attempts":[`, policy)
	comma := ""
	for a := range attempts {
		b, err := json.Marshal(a)
		if err != nil {
			return err
		}
		fmt.Fprintf(w, "%s%s", comma, b)
		comma = ","
	}
	fmt.Fprintln(w, "]}")
	return w.Flush()
}

// printCurveCSV prints a line for each attempt, with the numbers of the JSON.
func printCurveCSV(out io.Writer, attempts iter.Seq[attempt]) error {
	w := bufio.NewWriter(out)
	fmt.Fprintln(w, "n,at_seconds,delay_seconds,min_seconds,max_seconds")
	for a := range attempts {
		fmt.Fprintf(w, "%d,%s,%s,%s,%s\n", a.N, a.At.seconds(), a.Delay.seconds(), a.Least.seconds(), a.Most.seconds())
	}
	return w.Flush()
}

// A span is a sum of durations, which itself may be too long for one.
type span struct{ sec, ns int64 }

func (s span) plus(d time.Duration) span {
	ns := s.ns + int64(d%time.Second)
	return span{s.sec + int64(d/time.Second) + ns/1e9, ns % 1e9}
}

// MarshalJSON returns the number of seconds, exactly.
func (s span) MarshalJSON() ([]byte, error) { return s.seconds(), nil }

func (s span) seconds() []byte {
	b := strconv.AppendInt(nil, s.sec, 10)
	if s.ns > 0 {
		b = append(b, strings.TrimRight(fmt.Sprintf(".%09d", s.ns), "0")...)
	}
	return b
}

// String returns the span as people read it: no finer than matters.
func (s span) String() string {
	if s.sec >= math.MaxInt64/int64(time.Second) {
		return fmt.Sprintf("%dd", s.sec/(24*60*60))
	}
	d := time.Duration(s.sec)*time.Second + time.Duration(s.ns)
	if d < 10*time.Second {
		return tiers.FormatDuration(d.Round(time.Millisecond))
	}
	return tiers.FormatDuration(d.Round(time.Second))
}
