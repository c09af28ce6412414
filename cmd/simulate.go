package cmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"backlog/backlog"
	"backlog/backlog/config"
	"backlog/backlog/inspect"
	"backlog/backlog/logging"

	"backlog/backlog/simulate"
	"backlog/backlog/table"
	"backlog/internal/picture"
)

// SimulateOptions are the flags of simulate.
type SimulateOptions struct {
	dataFlags
	Policy   string
	Attempts int
	Life     bool
	Inserted time.Time
	Seed     uint64
	WorkloadOptions
	LearnedOptions

	Live   bool
	Assume string
}

// WorkloadOptions are the flags of simulate that are about many records.
type WorkloadOptions struct {
	Arrivals string
	Poison   float64
	Success  float64
	Outages  []string
	For      time.Duration
	From     time.Time
	CallTime time.Duration
	Down     []string
	Compare  string
	Diff     string
	CSV      bool
	Plot     string
}

// firstMonday is the default start of a workload. It is fixed, so that a simulation always gives the same
// result.
var firstMonday = time.Date(2026, time.January, 5, 0, 0, 0, 0, time.UTC)

// maxAttempts bounds the output of --attempts.
const maxAttempts = 1_000_000

func (o *SimulateOptions) AddFlags(f *pflag.FlagSet) {
	f.StringVar(&o.Policy, "policy", "", "show the `POLICY`: its name, or YAML with its settings (default: the configured one)")
	f.IntVar(&o.Attempts, "attempts", 12, "show the first `N` attempts at a record that never succeeds")
	f.BoolVar(&o.Life, "life", false, "show how often each tier tries a record that never succeeds")
	f.Var(&parsedFlag[time.Time]{target: &o.Inserted, parse: parseMoment}, "inserted", "when the record of --life is inserted: `TIME`, RFC 3339 (default: now)")
	f.Uint64Var(&o.Seed, "seed", 1, "seed of random delays: the same `NUMBER` gives the same delays")
	o.dataFlags.AddFlags(f)
	f.Lookup("now").Value.(*parsedFlag[time.Time]).parse = parseMoment
	f.StringVar(&o.Arrivals, "arrivals", "", "model a workload in which records come in at this `RATE`, such as 1000/h (1000/h,regular: at even intervals)")
	o.Success = 1
	o.From = firstMonday
	f.Var(&parsedFlag[float64]{&o.Poison, "0%", parseShare}, "poison", "`SHARE` of the records that never succeed, such as 1% or 0.01")
	f.Var(&parsedFlag[float64]{&o.Success, "100%", parseShare}, "success", "`CHANCE` that an attempt at any other record succeeds, such as 98% or 0.98")
	f.StringArrayVar(&o.Outages, "outage", nil, "an outage, as `DURATION+DURATION`: 6h+2h begins after 6h and lasts 2h; may be repeated")
	length := durationBetween(time.Minute, 100*365*24*time.Hour, "a duration from 1m to 36500d; write it as in 30d (s, m, h, d or w)")
	f.Var(&parsedFlag[time.Duration]{target: &o.For, parse: length}, "for", "how long the simulation lasts: `DURATION` (default: a workload 7d, --live 24h)")
	f.Var(&parsedFlag[time.Time]{&o.From, firstMonday.Format(time.RFC3339), parseMoment}, "from", "when the simulation begins: `TIME`, RFC 3339")
	o.LearnedOptions.addFlags(f)
	upToADay := durationBetween(0, 24*time.Hour, "a duration up to a day; write it as in 200ms")
	f.Var(&parsedFlag[time.Duration]{&o.CallTime, "0s", upToADay}, "call-time", "how long each call takes, `DURATION` such as 200ms, so that passes may overlap")
	f.StringArrayVar(&o.Down, "down", nil, "a time in which backlog does not run, as `DURATION+DURATION`: 6h+2h begins after 6h and lasts 2h; may be repeated")
	f.StringVar(&o.Compare, "compare", "", "compare `LIST` of policies and of files, separated by commas, on the same workload")
	f.StringVar(&o.Diff, "diff", "", "show only what would be different with the schedule and policy of `FILE`")
	f.StringVar(&o.Plot, "plot", "", "draw the calls and the pending records as `FILE`.svg or .png")
	f.BoolVar(&o.CSV, "csv", false, "print the figures over time as CSV")
	f.BoolVar(&o.Live, "live", false, "show what the schedule does with the records of the table, which is only read")
	f.StringVar(&o.Assume, "assume", "fail", "with --live, the `OUTCOME` of attempts: fail, succeed, p=SHARE or outage=DURATION")
}

func newSimulate(g *globalOptions) *cobra.Command {
	var o SimulateOptions
	c := &cobra.Command{
		Use:   "simulate",
		Short: "Show what a schedule or a policy does, without waiting for it",
		RunE: func(c *cobra.Command, _ []string) error {
			ctx, signals := onTermOrHangup(c.Context())
			defer signals.stop()
			return runSimulate(ctx, o, g, c.Flags())
		},
	}
	o.AddFlags(c.Flags())
	c.RegisterFlagCompletionFunc("policy", completeOneOf(policyNames()...))
	return c
}

// parseShare parses a share of records.
func parseShare(text string) (float64, error) { return simulate.ParseShare(text) }

// questions are what simulate can be asked, each with its flags. Flags that all take are left out.
var questions = []struct{ name, flags string }{
	{"--arrivals", "arrivals poison success outage from now for call-time down compare diff plot csv"},
	{"--live", "live assume now for call-time down compare diff plot csv"},
	{"--life", "life inserted now"},
	{"--learned", "learned passes arrivals from now for call-time down compare diff plot csv"},
	{"--attempts", "attempts"},
	{"the policy refresh", "attempts from now call-time"},
}

// checkFlags returns an error if a given flag has no effect on the answer to the question, or if two
// flags exclude each other.
func checkFlags(flags *pflag.FlagSet, question string) (err error) {
	for _, replaced := range []string{"poison", "success", "outage"} {
		if question == "--learned" && flags.Changed(replaced) {
			return usagef("--learned and --%s exclude each other: give one of them", replaced)
		}
	}
	flags.Visit(func(f *pflag.Flag) {
		err = cmp.Or(err, checkFlag(f.Name, question))
	})
	if err != nil {
		return err
	}
	for _, x := range []struct{ one, other string }{
		{"csv", "json"}, {"diff", "compare"}, {"compare", "policy"}, {"now", "from"},
	} {
		if flags.Changed(x.one) && flags.Changed(x.other) {
			return usagef("--%s and --%s exclude each other: give one of them", x.one, x.other)
		}
	}
	return nil
}

// checkFlag returns an error if the flag belongs only to other questions.
func checkFlag(name, question string) error {
	var takers []string // the questions that take the flag
	for _, q := range questions {
		if slices.Contains(strings.Fields(q.flags), name) {
			takers = append(takers, q.name)
		}
	}
	switch {
	case len(takers) == 0 || slices.Contains(takers, question):
		return nil
	case slices.Contains(takers, "--"+name):
		return usagef("%s and --%s are two questions: ask for one", question, name)
	}
	return usagef("--%s belongs to %s", name, strings.Join(takers, " or "))
}

func runSimulate(ctx context.Context, o SimulateOptions, g *globalOptions, f *pflag.FlagSet) error {
	if o.Live || o.Learned || o.Arrivals != "" {
		question := "--arrivals"
		switch {
		case o.Learned:
			question = "--learned"
		case o.Arrivals == "":
			question = "--live"
		}
		if o.Live && o.Arrivals != "" {
			return usagef("--live and --arrivals are two questions: ask for one")
		}
		if err := checkFlags(f, question); err != nil {
			return err
		}
		return o.workload(ctx, g)
	}
	configured, err := o.policy(g)
	if err != nil {
		return err
	}
	p := policyOf(configured)
	question := "--attempts"
	switch {
	case p != nil && p.Refresher != nil:
		question = "the policy refresh"
	case o.Life || f.Changed("inserted") || p == nil && !f.Changed("attempts"):
		question = "--life"
	}
	random := rand.New(rand.NewPCG(o.Seed, 0))
	if err := checkFlags(f, question); err != nil {
		return err
	}
	switch {
	case o.Attempts < 1 || o.Attempts > maxAttempts:
		return usagef("--attempts: %d is not from 1 to %d", o.Attempts, maxAttempts)
	case question == "--life":
		return o.life(ctx, g, configured.Name, p, random.Float64)
	case p == nil:
		return usagef("the policy %s has no delays to show: a record is tried whenever a tier ticks that is wide enough for its age", configured.Name)
	case p.Refresher != nil:
		return o.refresh(g, p.Refresher)
	case p.Never:
		return usagef("the policy %s has no delays to show: a record is tried once and never again", configured.Name)
	}
	return o.printAttempts(g, p, simulate.Attempts(p, o.Attempts, random.Float64))
}

// policy returns the policy of --policy, by default the configured one.
func (o *SimulateOptions) policy(g *globalOptions) (config.Policy, error) {
	isRefresh := strings.TrimSpace(o.Policy) == "refresh" // it has no defaults, so that the configured settings are used
	if o.Policy == "" || isRefresh {
		cfg, err := g.load()
		if err == nil && isRefresh && cfg.Policy.Name != "refresh" {
			err = usagef("--policy: refresh has no default for when and for its timeout, and the configuration has another policy; write 'refresh: {every: 2h, timeout: 1h}'")
		}
		if err != nil {
			return config.Policy{}, err
		}
		return cfg.Policy, nil
	}
	return parsePolicy("--policy", o.Policy)
}

func parsePolicy(flag, text string) (config.Policy, error) {
	p, err := config.ParsePolicy(text, knownPolicies()...)
	if err != nil {
		err = usagef("%s: %w", flag, err)
	}
	return p, err
}

// life prints the life of one record under the configured schedule.
func (o *SimulateOptions) life(ctx context.Context, g *globalOptions, name string, p *backlog.Policy, random func() float64) error {
	cfg, err := g.load()
	if err != nil {
		return err
	}
	l := simulate.LifeOf(ctx, cfg.Tiers, p, cmp.Or(o.Inserted, o.currentTime()), random)
	if ctx.Err() == nil {
		return o.printLife(g, name, l, true)
	}
	return errors.Join(o.printLife(g, name, l, false), errIncomplete)
}

// workload simulates many records: modelled ones, learned ones or the pending ones of the table. It parses all flags
// and reads all files before it starts.
func (o *SimulateOptions) workload(ctx context.Context, g *globalOptions) error {
	w, err := o.parse()
	if err != nil {
		return err
	}
	down, err := w.ParsePeriods(o.Down)
	if err != nil {
		return usagef("--down: %w", err)
	}
	cfg, err := g.load()
	if err != nil {
		return err
	}
	list, err := o.candidates(g, cfg, down)
	if err != nil {
		return err
	}
	if _, err := picture.Format(o.Plot); o.Plot != "" && err != nil {
		return usagef("--plot: %w", err)
	}
	if o.Learned {
		if err := o.learn(g, cfg, w); err != nil {
			return err
		}
	}
	if o.Live {
		err := g.readRows(ctx, cfg, w)
		if ctx.Err() != nil {
			return fmt.Errorf("stopped after %s of the table: there are no figures yet", inspect.Plural(len(w.Records)+w.Skipped, "pending row"))
		}
		if err != nil {
			return err
		}
	}
	return o.simulate(ctx, g, w, list)
}

// readRows reads the records of the table.
func (g *globalOptions) readRows(ctx context.Context, cfg *config.Config, w *simulate.Workload) error {
	a, err := g.wireTable(ctx, wiring{cfg: cfg, log: newLog(cfg.Log, g.err), now: w.From}, table.Options{ReadOnly: true})
	if err != nil {
		return err
	}
	defer a.close()
	return w.ReadRows(func(add func(inspect.Row)) error { return a.table.EachPending(ctx, w.From, add) })
}

// errIncomplete is the error of a simulation that was stopped. Its figures so far are printed already.
var errIncomplete = errors.New("stopped: the figures are incomplete")

// simulate runs the workload with each candidate, prints the results and draws them. After a stop, the results
// so far are printed but not drawn. With --diff they are not printed either, because a part of a result
// differs from a whole one everywhere.
func (o *SimulateOptions) simulate(ctx context.Context, g *globalOptions, w *simulate.Workload, list []simulate.Candidate) error {
	screen, _ := g.err.(*logging.Screen) // nil: standard error is no terminal
	for i, candidate := range list {
		list[i].Progress = screen.Simulating(candidate.Name, i, len(list))
	}
	all, err := simulate.Compare(ctx, w, list)
	screen.Hide()
	switch {
	case err == nil:
		if o.Plot != "" {
			err = simulate.DrawPicture(o.Plot, w, all)
		}
		return errors.Join(err, o.printResults(g, w, all))
	case ctx.Err() == nil:
		return err
	case len(all) == 0:
		return errors.New("stopped: there are no figures yet")
	case o.Diff != "":
		return errors.New("stopped: there are no figures to compare yet")
	}
	if !o.JSON && !o.CSV {
		g.printIncomplete()
	}
	return errors.Join(o.printResults(g, w, all), errIncomplete)
}

// printIncomplete prints, before the figures, that a stop has cut them short.
func (g *globalOptions) printIncomplete() { g.printf("Stopped: the figures are incomplete.\n\n") }

// candidates returns what is compared. Each is the configured schedule with a policy of --compare, or the
// schedule and policy of a file.
func (o *SimulateOptions) candidates(
	g *globalOptions, cfg *config.Config, down []simulate.Outage,
) (list []simulate.Candidate, err error) {
	names := simulate.SplitOutside(o.Compare) // without --compare: one empty name
	if o.Diff != "" {
		names = []string{"now", o.Diff}
	}
	for i, name := range names {
		var p config.Policy
		c := cfg
		switch {
		case i == 0 && o.Compare == "":
			p, err = o.policy(g)
			name = cmp.Or(name, p.Name)
		case o.Diff != "" || strings.HasSuffix(name, ".yaml") || strings.HasSuffix(name, ".yml"):
			c, err = config.LoadFile(name, knownSettings())
			if err != nil {
				return nil, usageError{err}
			}
			p = c.Policy
		default:
			p, err = parsePolicy("--compare", name)
		}
		if err != nil {
			return nil, err
		}
		policy := policyOf(p)
		if policy != nil && policy.Refresher != nil {
			return nil, usagef("%s: its rows start again and again, which --arrivals and --live do not model; use simulate --attempts", name)
		}
		options := simulation(c, policy)
		options.Ticks = o.Live
		options.CallTime = o.CallTime
		options.Down = down
		list = append(list, simulate.Candidate{Name: name, Options: options})
	}
	return list, nil
}

// parse returns the workload that --arrivals models, one that is still to be learned, or, with --live, one
// without records.
func (o *SimulateOptions) parse() (w *simulate.Workload, err error) {
	length := 7 * 24 * time.Hour
	if o.Live {
		length = 24 * time.Hour
	}
	w = &simulate.Workload{Seed: o.Seed, From: o.begin(), Poison: o.Poison, Success: o.Success}
	w.To = w.From.Add(cmp.Or(o.For, length))
	if o.Live {
		if err := w.Assume(o.Assume); err != nil {
			return nil, usagef("--assume: %w", err)
		}
		return w, nil
	}
	if o.Learned && o.Arrivals == "" {
		return w, nil
	}
	if err := w.SetArrivals(o.Arrivals); err != nil {
		return nil, usagef("--arrivals: %w", err)
	}
	w.Outages, err = w.ParsePeriods(o.Outages)
	if err != nil {
		return nil, usagef("--outage: %w", err)
	}
	return w, nil
}

// begin returns when a simulation begins.
func (o *SimulateOptions) begin() time.Time {
	if o.Live || !o.Now.IsZero() {
		return o.currentTime()
	}
	return o.From
}

// currentTime returns the time of --now, by default the real one.
func (o *SimulateOptions) currentTime() time.Time {
	_, now := o.clock()
	return now.UTC()
}

// parseMoment parses a time at which a simulation can begin. A simulation may last a hundred years, and its
// times must fit into nanoseconds since 1970.
func parseMoment(text string) (time.Time, error) {
	t, err := parseTime(text)
	if year := t.UTC().Year(); err == nil && (year < 1970 || year > 2100) {
		err = fmt.Errorf("the year %d is too far away; a simulation takes one from 1970 to 2100", year)
	}
	return t.UTC(), err
}

func (o *SimulateOptions) printAttempts(g *globalOptions, p *backlog.Policy, list []simulate.Attempt) error {
	if o.JSON {
		return printJSON(g.out, struct {
			Policy   string             `json:"policy"`
			Attempts []simulate.Attempt `json:"attempts"`
		}{p.Name, list})
	}
	if o.Policy != "" {
		g.printf("A record that never succeeds, policy %s:\n\n", p.Name)
	}
	g.printf("%s", simulate.AttemptsText(p, list))
	return nil
}

func (o *SimulateOptions) printLife(g *globalOptions, policy string, l simulate.Life, complete bool) error {
	if o.JSON {
		return printJSON(g.out, struct {
			Policy string `json:"policy"`
			simulate.Life
			Complete bool `json:"complete"` // false: the simulation was stopped
		}{policy, l, complete})
	}
	if !complete {
		g.printIncomplete()
	}
	g.printf("%s", l.Text(policy, complete))
	return nil
}

// printResults prints the results in the form that the flags ask for.
func (o *SimulateOptions) printResults(g *globalOptions, w *simulate.Workload, all []simulate.Result) error {
	if w.Skipped > 0 {
		fmt.Fprintf(g.err, "backlog: %s without a date that can be read: left out, as passes do\n", inspect.Plural(w.Skipped, "pending row"))
	}
	switch {
	case o.JSON && o.Diff != "":
		return printJSON(g.out, simulate.NewDiff(all[0], all[1]))
	case o.JSON && o.Compare == "":
		return printJSON(g.out, all[0])
	case o.JSON:
		return printJSON(g.out, all)
	case o.CSV:
		return simulate.WriteSeries(g.out, all)
	case o.Diff != "":
		g.printf("%s", simulate.DiffText(all[0], all[1]))
		return nil
	case o.Live:
		g.printf("%s in the table, with --assume %s,", inspect.Plural(len(w.Records), "pending record"), o.Assume)
	default:
		g.printf("%s inserted", inspect.Plural(all[0].Records, "record"))
	}
	g.printf(" from %s to %s.\n\n%s", inspect.When(w.From), inspect.When(w.To), simulate.ResultsText(all))
	return nil
}

// refresh prints the first attempts of a record that always fails, under the policy refresh and the
// configured schedule.
func (o *SimulateOptions) refresh(g *globalOptions, p backlog.Refresher) error {
	cfg, err := g.load()
	if err != nil {
		return err
	}
	list, err := simulate.RefreshAttempts(p, cfg.Tiers, o.begin(), o.CallTime, o.Attempts)
	if err != nil {
		return err
	}
	if !o.JSON {
		g.printf("%s", simulate.RefreshText(list))
		return nil
	}
	out := struct {
		Policy   string                    `json:"policy"`
		Attempts []simulate.RefreshAttempt `json:"attempts"`
		Disabled stamp                     `json:"disabled_at"`
		Reason   *string                   `json:"disabled_reason"`
	}{Policy: "refresh", Attempts: list}
	for _, a := range list {
		if a.Disabled {
			out.Disabled = a.End
			out.Reason = &a.Reason
		}
	}
	return printJSON(g.out, out)
}
