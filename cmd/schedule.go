package cmd

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"backlog/backlog/config"
	"backlog/backlog/inspect"
	"backlog/internal/lists"
)

// ScheduleOptions are the flags of schedule.
type ScheduleOptions struct {
	dataFlags
	From   time.Time
	For    time.Duration
	Count  int
	Format string
}

func newSchedule(g *globalOptions) *cobra.Command {
	var o ScheduleOptions
	c := &cobra.Command{
		Use:   "schedule",
		Short: "Show the coming ticks, or export them for cron or systemd",
		RunE:  func(*cobra.Command, []string) error { return runSchedule(o, g) },
	}
	f := c.Flags()
	f.Var(&parsedFlag[time.Time]{target: &o.From, parse: parseTime}, "from", "show the ticks after `TIME` (RFC 3339; default: now)")
	f.Var(&parsedFlag[time.Duration]{target: &o.For, parse: parseAge}, "for", "show the ticks within `DURATION` (default: 24h, or until --count is reached)")
	f.IntVar(&o.Count, "count", 0, "show at most `N` ticks (default: all of them)")
	f.StringVar(&o.Format, "format", "text", "print as `FORMAT`: text, json, crontab or systemd")
	o.dataFlags.AddFlags(f)
	c.RegisterFlagCompletionFunc("format", completeOneOf("text", "json", "crontab", "systemd"))
	return c
}

// maxTicks bounds the output; more ticks are an error.
const maxTicks = 1_000_000

func runSchedule(o ScheduleOptions, g *globalOptions) error {
	_, now := o.clock()
	from := cmp.Or(o.From, now)
	until := from.Add(cmp.Or(o.For, 24*time.Hour))
	if o.For == 0 && o.Count > 0 {
		until = time.Time{} // however long that takes
	}
	if o.Count < 0 {
		return usagef("--count: %d is less than 0", o.Count)
	}
	cfg, err := g.load()
	if err != nil {
		return err
	}
	ticks := slices.AppendSeq([]inspect.Tick{}, inspect.Ticks(cfg.Tiers, from, until, cmp.Or(o.Count, maxTicks+1)))
	switch {
	case o.JSON && o.Format != "text" && o.Format != "json":
		return usagef("--json: --format %s asks for something else", o.Format)
	case o.Format == "crontab" || o.Format == "systemd":
		g.printTimer(cfg, o.Format)
		return nil
	case len(ticks) > maxTicks:
		return usagef("there are more than %s ticks: ask for fewer with --for or --count", inspect.Thousands(maxTicks))
	case o.JSON || o.Format == "json":
		return printJSON(g.out, ticks)
	case o.Format == "text":
		row := func(t inspect.Tick) string {
			return fmt.Sprintf("%v\t%s\t%s", t.At, inspect.Shown(t.Tier), strings.Join(lists.Map(t.Covers, inspect.Shown), ", "))
		}
		return printTable(g.out, append([]string{"AT\tTIER\tCOVERS"}, lists.Map(ticks, row)...))
	}
	return usagef("--format: %q is not one of text, json, crontab, systemd", o.Format)
}

// pathOrPlaceholder returns the path, or a placeholder if there was an error.
func pathOrPlaceholder(path string, err error) string {
	if err != nil {
		return "/path/to/it"
	}
	return path
}

// timer returns the command for cron or systemd. It has the global flags of this command, also if they were
// given by the environment, which a timer does not have. A database URL that may hold a password is left out.
func (g *globalOptions) timer(stop time.Duration) inspect.Timer {
	t := inspect.Timer{
		Program: pathOrPlaceholder(os.Executable()),
		Flags:   []string{"--config", pathOrPlaceholder(filepath.Abs(g.Config))},
		Folder:  pathOrPlaceholder(os.Getwd()),
		Hidden:  g.Database != "" && g.Database != redactedURL(g.Database),
		Stop:    stop,
	}
	database := g.Database
	if t.Hidden {
		database = ""
	}
	for _, f := range []struct{ name, value string }{
		{"--database", database}, {"--table", g.Table}, {"--log-level", g.LogLevel}, {"--log-format", g.LogFormat},
	} {
		if f.value != "" {
			t.Flags = append(t.Flags, f.name, f.value)
		}
	}
	return t
}

// printTimer prints the timer for cron or systemd. It warns of tiers that tick more than once a minute.
func (g *globalOptions) printTimer(cfg *config.Config, format string) {
	for _, t := range cfg.Tiers.Tiers() {
		if t.Cron == "" && t.Every < time.Minute {
			fmt.Fprintf(g.err, "backlog: the tier %s ticks %s, but this timer wakes once a minute; \"backlog run\" keeps to it\n", inspect.Shown(t.Name), inspect.Often(t))
		}
	}
	t := g.timer(cfg.ShutdownTimeout)
	if format == "crontab" {
		g.printf("%s", t.Crontab(cfg.Tiers))
	} else {
		g.printf("%s", t.Systemd(cfg.Tiers))
	}
}
