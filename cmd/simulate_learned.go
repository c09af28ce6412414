package cmd

import (
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"backlog/backlog/advise"
	"backlog/backlog/config"
	"backlog/backlog/inspect"
	"backlog/backlog/simulate"
	"backlog/tiers"
)

// LearnedOptions are the flags about what is learned from passes.
type LearnedOptions struct {
	Learned bool
	Passes  []string
}

func (o *LearnedOptions) addFlags(f *pflag.FlagSet) {
	f.BoolVar(&o.Learned, "learned", false, "model a workload as past passes show it: how many records come in, how long they stay broken, outages")
	f.StringArrayVar(&o.Passes, "passes", nil, "with --learned, read the passes from `FILE` instead of the state folder; may be repeated")
}

// learn sets how records of the workload recover, its outages and, unless it has one, its rate of records, as
// passes show them. It says on standard error what these passes are.
func (o *LearnedOptions) learn(g *globalOptions, cfg *config.Config, w *simulate.Workload) error {
	h, err := g.readPasses(cfg, o.Passes)
	if err != nil {
		return err
	}
	m := advise.Fit(h)
	if missing, _ := m.Missing(); len(missing) > 0 {
		return fmt.Errorf("--learned: too little is known: %s; let backlog run longer, or name more files with --passes", strings.Join(missing, "; "))
	}
	w.Learned = &simulate.Behavior{Broken: m.Broken, Oldest: m.Oldest}
	w.Outages = w.DrawOutages(m.OutageGaps())
	if w.PerHour == 0 {
		if err := w.SetPerHour(m.PerHour); err != nil {
			return fmt.Errorf("--learned: %w; give --arrivals or a shorter --for", err)
		}
	}
	fmt.Fprintf(g.err, "backlog: %s\n", learnedText(m))
	return nil
}

// learnedText returns a line for people about what a model was learned from.
func learnedText(m *advise.Model) string {
	_, outages := m.OutageGaps()
	text := fmt.Sprintf("learned from %.1f days: %s, %d recoveries, %s", m.Days,
		inspect.Plural(m.Records, "record"), m.Recoveries, inspect.Plural(len(outages), "outage"))
	text += fmt.Sprintf("; %.1f%% of the records fail at first, of these %.1f%% have not recovered by %s",
		100*m.FirstFailures.Value, 100*m.BrokenForGood.Value, tiers.FormatDuration(m.Oldest))
	if !m.Changed.IsZero() {
		text += fmt.Sprintf("; earlier passes are left out, because records behaved differently before %s", m.Changed.Format("2006-01-02"))
	}
	return text
}
