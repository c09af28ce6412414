package inspect

import (
	_ "embed" // for systemd.units
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"backlog/tiers"
)

// A Timer is the command that a timer of the system runs whenever a tier ticks: the program's
// "once --due", in a folder.
type Timer struct {
	Program string
	Flags   []string
	Folder  string
	Hidden  bool          // the URL of the database is not among the flags, because it may hold a password
	Stop    time.Duration // how long the program may take to stop
}

// Crontab returns a line for cron, with comments. It loses no tick of the schedule.
func (t Timer) Crontab(s *tiers.Schedule) string {
	text := "# backlog: one line for all tiers. When a tier ticks, the widest one that does runs.\n" + tierComments(s, "#   ")
	if t.Hidden {
		text += "# The database's URL may hold a password and is left out: set it here, or in the configuration.\n#BACKLOG_DATABASE=\n"
	}
	flags := append([]string{"--wait", "50s"}, t.Flags...) // a tick must not be lost because the last pass is just ending
	// Cron mails everything that is printed. An outage and its end are worth a mail; a tick without work
	// and a pass that is still running are not.
	if !slices.Contains(flags, "--log-level") {
		flags = append(flags, "--log-level", "warn")
	}
	return text + fmt.Sprintf("%s * * * *  cd %s && %s >/dev/null\n", minutes(s, "*"), forCrontab(t.Folder), t.command(forCrontab, flags))
}

// systemdUnits has the text of two files, with placeholders.
//
//go:embed systemd.units
var systemdUnits string

// Systemd returns a timer and a service for systemd. They lose no tick of the schedule.
func (t Timer) Systemd(s *tiers.Schedule) string {
	environment := ""
	if t.Hidden {
		environment = "# The database's URL may hold a password and is left out: have this file set it, or the configuration.\n#EnvironmentFile=\n"
	}
	return strings.NewReplacer(
		"{TIERS}\n", tierComments(s, "# "), "{MINUTES}", minutes(s, "00"),
		"{ENVIRONMENT}\n", environment, "{COMMAND}", t.command(forSystemd, t.Flags),
		"{DIRECTORY}", strings.ReplaceAll(t.Folder, "%", "%%"), "{STOP}", fmt.Sprintf("%.0f", math.Ceil(t.Stop.Seconds())+15),
	).Replace(systemdUnits)
}

// command returns the command line, with quoted arguments.
func (t Timer) command(quoted func(string) string, flags []string) string {
	line := quoted(t.Program) + " once --due"
	for _, f := range flags {
		line += " " + quoted(f)
	}
	return line
}

// minutes returns the minutes of an hour at which a timer must wake to reach every tick: all of them, "*",
// or every n-th one, beginning at first. It allows for clocks that differ from UTC by a multiple of a
// quarter of an hour.
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

// tierComments returns the tiers as comments.
func tierComments(s *tiers.Schedule, comment string) (text string) {
	for _, t := range s.Tiers() {
		text += fmt.Sprintf("%srecords up to %s old: %s\n", comment, tiers.FormatDuration(t.MaxAge), Often(t))
	}
	return text
}

// isPlain reports whether the argument needs no quotes anywhere.
func isPlain(arg string) bool {
	const plain = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_@+=:,./-"
	return arg != "" && strings.Trim(arg, plain) == ""
}

// forCrontab quotes an argument so that it passes cron and the shell unchanged.
func forCrontab(arg string) string {
	if !isPlain(arg) {
		arg = "'" + strings.ReplaceAll(arg, "'", `'\''`) + "'"
	}
	return strings.ReplaceAll(arg, "%", `\%`) // to cron a bare % is a line break
}

// forSystemd quotes an argument for ExecStart=.
func forSystemd(arg string) string {
	if !isPlain(arg) {
		arg = `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "$", "$$", "%", "%%").Replace(arg) + `"`
	}
	return arg
}
