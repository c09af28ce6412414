package cmd

import (
	"cmp"
	"context"
	_ "embed" // for systemd.units
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"backlog/backlog/inspect"
	"backlog/tiers"
)

// ScheduleOptions are the flags of schedule.
type ScheduleOptions struct {
	dataFlags
	From   time.Time
	For    time.Duration
	Count  int
	Format string
}

func newSchedule(g *globals) *cobra.Command {
	var o ScheduleOptions
	c := &cobra.Command{
		Use:   "schedule",
		Short: "Show the coming ticks, or export them for cron or systemd",
		Long: `Schedule shows when which tier starts a pass. Of tiers that tick together only
the widest starts; it covers the narrower ones, whose records are among its own.

With --format crontab or systemd it prints what makes the system's own timer run
"backlog once --due" whenever a tier ticks, with the flags that are given here or
stand in BACKLOG_*, but for a database URL that may hold a password. As with
"backlog run", ticks missed while the machine was off are made up for by one pass.`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error { return runSchedule(c.Context(), o, g) },
	}
	f := c.Flags()
	f.Var(&flagOf[time.Time]{to: &o.From, read: parseTime}, "from", "show the ticks after `TIME` (RFC 3339; default: now)")
	f.Var(&flagOf[time.Duration]{to: &o.For, read: parseAge}, "for", "show the ticks of that `DURATION` (default 24h, or as --count says)")
	f.IntVar(&o.Count, "count", 0, "show at most `N` ticks (default: all of them)")
	f.StringVar(&o.Format, "format", "text", "print as `FORMAT`: text, json, crontab or systemd")
	o.dataFlags.AddFlags(f)
	c.RegisterFlagCompletionFunc("format", words("text", "json", "crontab", "systemd"))
	return c
}

// mostTicks is more than anybody reads.
const mostTicks = 1_000_000

func runSchedule(_ context.Context, o ScheduleOptions, g *globals) error {
	_, from := o.clock()
	if !o.From.IsZero() {
		from = o.From
	}
	until := from.Add(cmp.Or(o.For, 24*time.Hour))
	if o.For == 0 && o.Count > 0 {
		until = time.Time{} // as many as it takes
	}
	if o.Count < 0 {
		return usagef("--count: %d is less than 0", o.Count)
	}
	cfg, err := g.load()
	if err != nil {
		return err
	}
	ticks := slices.AppendSeq([]inspect.Tick{}, inspect.Ticks(cfg.Tiers, from, until, cmp.Or(o.Count, mostTicks+1)))
	switch {
	case o.JSON && o.Format != "text" && o.Format != "json":
		return usagef("--json: --format %s asks for something else", o.Format)
	case o.Format == "crontab":
		return g.printCrontab(cfg.Tiers)
	case o.Format == "systemd":
		return g.printSystemd(cfg.Tiers, cfg.ShutdownTimeout)
	case len(ticks) > mostTicks:
		return usagef("there are more than %s ticks: ask for fewer with --for or --count", inspect.Thousands(mostTicks))
	case o.JSON || o.Format == "json":
		return printJSON(g.out, ticks)
	case o.Format == "text":
		return printTicks(g.out, ticks)
	}
	return usagef("--format: %q is not one of text, json, crontab, systemd", o.Format)
}

func printTicks(w io.Writer, ticks []inspect.Tick) error {
	row := func(t inspect.Tick) string {
		return fmt.Sprintf("%v\t%s\t%s", t.At, shown(t.Tier), strings.Join(each(t.Covers, shown), ", "))
	}
	return printTable(w, append([]string{"AT\tTIER\tCOVERS"}, each(ticks, row)...))
}

// minutes returns at which minutes of an hour a timer wakes for every tick: all of
// them, "*", or each n-th from the first on, of a clock that may be quarters of an hour
// off UTC.
func minutes(s *tiers.Schedule, first string) string {
	for _, n := range []time.Duration{15, 5, 3} {
		step := n * time.Minute
		misses := func(t tiers.Tier) bool { return t.Cron != "" || t.Every%step != 0 || t.Offset%step != 0 }
		if !slices.ContainsFunc(s.Tiers(), misses) {
			return fmt.Sprintf("%s/%d", first, n)
		}
	}
	return "*"
}

// tierComments returns the tiers as comments, and warns of those that tick more often
// than a system's timer wakes.
func (g *globals) tierComments(s *tiers.Schedule, comment string) (text string) {
	for _, t := range s.Tiers() {
		text += fmt.Sprintf("%srecords up to %s old: %s\n", comment, tiers.FormatDuration(t.MaxAge), often(t))
		if t.Cron == "" && t.Every < time.Minute {
			fmt.Fprintf(g.err, "backlog: the tier %s ticks %s, but this timer wakes once a minute; \"backlog run\" keeps to it\n", shown(t.Name), often(t))
		}
	}
	return text
}

// isPlain reports whether the argument needs no quotes anywhere.
func isPlain(arg string) bool {
	const plain = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_@+=:,./-"
	return arg != "" && strings.Trim(arg, plain) == ""
}

// forCrontab returns the argument as cron hands it on to the shell unchanged.
func forCrontab(arg string) string {
	if !isPlain(arg) {
		arg = "'" + strings.ReplaceAll(arg, "'", `'\''`) + "'"
	}
	return strings.ReplaceAll(arg, "%", `\%`) // else a line break to cron
}

// forSystemd returns the argument as it stands in ExecStart=.
func forSystemd(arg string) string {
	if !isPlain(arg) {
		arg = `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "$", "$$", "%", "%%").Replace(arg) + `"`
	}
	return arg
}

// realPath returns the path, or a place for it where the system does not tell it.
func realPath(path string, err error) string {
	if err != nil {
		return "/path/to/it"
	}
	return path
}

// onceArgs returns the command line for the timer. It has the flags given here and
// in this environment, which a timer does not see. A database URL that may hold a
// password is left out, and hidden is true.
func (g *globals) onceArgs() (args []string, hidden bool) {
	args = []string{realPath(os.Executable()), "once", "--due", "--config", realPath(filepath.Abs(g.Config))}
	hidden = g.Database != "" && g.Database != shownURL(g.Database)
	for _, f := range []struct{ name, value string }{
		{"--database", g.Database}, {"--table", g.Table}, {"--log-level", g.LogLevel}, {"--log-format", g.LogFormat},
	} {
		if f.value != "" && (f.name != "--database" || !hidden) {
			args = append(args, f.name, f.value)
		}
	}
	return args, hidden
}

func (g *globals) printCrontab(s *tiers.Schedule) error {
	g.printf("# backlog: one line for all tiers. When a tier ticks, the widest one that does runs.\n%s", g.tierComments(s, "#   "))
	args, hidden := g.onceArgs()
	if hidden {
		g.printf("# The database's URL may hold a password and is left out: set it here, or in the configuration.\n#BACKLOG_DATABASE=\n")
	}
	// Cron mails what is printed. A tick without work and another pass that still runs
	// are normal; an outage and its end are worth a mail.
	if g.LogLevel == "" {
		args = append(args, "--log-level", "warn")
	}
	args = slices.Insert(args, 3, "--wait", "50s") // a tick that meets the end of another's pass is not lost
	g.printf("%s * * * *  cd %s && %s >/dev/null\n", minutes(s, "*"), forCrontab(realPath(os.Getwd())), strings.Join(each(args, forCrontab), " "))
	return nil
}

// systemdUnits are two files, with places for what differs.
//
//go:embed systemd.units
var systemdUnits string

func (g *globals) printSystemd(s *tiers.Schedule, stop time.Duration) error {
	args, hidden := g.onceArgs()
	environment := ""
	if hidden {
		environment = "# The database's URL may hold a password and is left out: have this file set it, or the configuration.\n#EnvironmentFile=\n"
	}
	g.printf("%s", strings.NewReplacer(
		"{TIERS}\n", g.tierComments(s, "# "), "{MINUTES}", minutes(s, "00"),
		"{ENVIRONMENT}\n", environment, "{COMMAND}", strings.Join(each(args, forSystemd), " "),
		"{DIRECTORY}", strings.ReplaceAll(realPath(os.Getwd()), "%", "%%"), "{STOP}", fmt.Sprintf("%.0f", math.Ceil(stop.Seconds())+15),
	).Replace(systemdUnits))
	return nil
}
