package cmd

import (
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"backlog/backlog"
	"backlog/backlog/advise"
	"backlog/backlog/advise/propose"
	"backlog/backlog/config"
	"backlog/backlog/inspect"
	"backlog/backlog/retry"
	"backlog/internal/picture"
	"backlog/tiers"
)

// AdviseOptions are the flags of advise.
type AdviseOptions struct {
	propose.Wishes
	Passes []string
	Plot   string
	JSON   bool
	CSV    bool
	YAML   bool
	Strict bool
}

func newAdvise(g *globalOptions) *cobra.Command {
	o := AdviseOptions{Wishes: propose.Wishes{Lost: -1}}
	c := &cobra.Command{
		Use:         "advise",
		Short:       "Propose a schedule, learned from what past passes met",
		Annotations: map[string]string{"3": "nothing is proposed, and --strict or --yaml is given"},
		RunE:        func(*cobra.Command, []string) error { return runAdvise(o, g) },
	}
	f := c.Flags()
	f.Var(&parsedFlag[float64]{target: &o.CallsPerHour, parse: parseCallRate}, "calls", "make at most `N/h` calls, on average")
	f.Var(&parsedFlag[time.Duration]{target: &o.Wait, parse: parseAge}, "wait", "let 95 % of the records that recover wait at most `DURATION` for their next attempt")
	f.Var(&parsedFlag[float64]{target: &o.Lost, parse: parseShare}, "lost", "lose at most this `SHARE` of the records that recover, such as 1% (default: no more than today)")
	f.Var(&parsedFlag[time.Duration]{target: &o.Fresh, parse: parseAge}, "fresh", "let a new record wait at most `DURATION` for its first attempt (default: as today)")
	f.StringArrayVar(&o.Passes, "passes", nil, "learn from `FILE`, not from the state folder; may be repeated")
	f.StringVar(&o.Plot, "plot", "", "draw what can be had, and what was learned, as `FILE`.svg or .png")
	f.BoolVar(&o.YAML, "yaml", false, "print the schedule to use alone, as YAML")
	f.BoolVar(&o.CSV, "csv", false, "print as CSV how many are still broken at each age")
	f.BoolVar(&o.JSON, "json", false, "print JSON")
	f.BoolVar(&o.Strict, "strict", false, "exit with 3 if nothing is proposed")
	return c
}

// parseCallRate reads a number of calls per time and returns it per hour.
func parseCallRate(text string) (float64, error) {
	n, per, err := tiers.ParseRate(text)
	if err != nil {
		return 0, fmt.Errorf("%q %w", text, err)
	}
	return n * (time.Hour.Seconds() / per.Seconds()), nil
}

// fewMegabytes has the garbage collector run more often. All passes are in memory at once, and the
// program does nothing else.
const fewMegabytes = 25

func runAdvise(o AdviseOptions, g *globalOptions) error {
	if o.JSON && o.CSV || o.JSON && o.YAML || o.CSV && o.YAML {
		return usagef("--json, --csv and --yaml exclude each other: give one of them")
	}
	if o.Plot != "" {
		if _, err := picture.Format(o.Plot); err != nil {
			return usagef("--plot: %w", err)
		}
	}
	cfg, err := g.load()
	if err != nil {
		return err
	}
	if err := checkAdvised(cfg); err != nil {
		return err
	}
	debug.SetGCPercent(fewMegabytes)
	history, err := g.readPasses(cfg, o.Passes)
	if err != nil {
		return err
	}
	learnedFrom := history.Table
	m := advise.Fit(history)
	history = nil                                       // it is large, and the search needs memory, too
	settings, _ := cfg.Policy.Settings.(retry.Settings) // nil for progressive
	a, err := propose.Advise(m, propose.Question{Schedule: cfg.Tiers, Settings: settings, Wishes: o.Wishes})
	if err != nil {
		return err
	}
	if name := stateName(cfg); !sameTable(learnedFrom, name) {
		a.Warnings = append(a.Warnings, fmt.Sprintf("the passes are of the table %s, not of %s", inspect.Shown(learnedFrom), name))
	}
	if o.Plot != "" {
		if err := picture.WriteFile(o.Plot, a.Plot); err != nil {
			return err
		}
	}
	return errors.Join(o.print(g, a), o.checkProposed(a))
}

// print prints the advice in the form that the flags ask for.
func (o *AdviseOptions) print(g *globalOptions, a *propose.Advice) error {
	switch {
	case o.JSON:
		return printJSON(g.out, a)
	case o.CSV:
		return a.Learned.WriteCSV(g.out)
	case o.YAML && a.HasYAML():
		g.printf("%s", a.YAML())
		return nil
	case o.YAML:
		return nil
	}
	g.printf("%s", a.Text())
	return nil
}

// sameTable reports whether two names of tables in the state folder are of tables of one name. What follows the last
// dash tells databases apart, and a file of another machine may have another one. "" is any table.
func sameTable(a, b string) bool {
	name := func(s string) string { return s[:max(0, strings.LastIndex(s, "-"))] }
	return a == "" || a == b || name(a) == name(b)
}

// advisedPolicies are the policies whose settings are searched.
var advisedPolicies = []string{"progressive", "fibonacci", "linear", "exponential", "list"}

// checkAdvised returns an error if there is nothing to advise on.
func checkAdvised(cfg *config.Config) error {
	name := cfg.Policy.Name
	if slices.Contains(advisedPolicies, name) {
		return nil
	}
	return usagef("the policy %s has no settings to advise on; there is advice on %s", name, strings.Join(advisedPolicies, ", "))
}

// checkProposed returns an error if there is no schedule to use but there should be one.
func (o *AdviseOptions) checkProposed(a *propose.Advice) error {
	proposed := a.Kind == propose.Propose || a.Kind == propose.Keep
	if proposed || !o.Strict && !o.YAML {
		return nil
	}
	return backlog.Worded("nothing is proposed: "+strings.Join(a.Reasons, "; "), errStrict)
}
