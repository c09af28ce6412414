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

// A Timer is what the system's own timer is to run whenever a tier ticks: the program's
// "once --due", in a folder.
type Timer struct {
	Program string
	Flags   []string
	Folder  string
	Hidden  bool          // the database's URL may hold a password and is not among the flags
	Stop    time.Duration // how long the program's end may take
}

// Crontab returns a line for cron that loses no tick of the schedule, with comments.
func (t Timer) Crontab(s *tiers.Schedule) string {
	text := "# backlog: one line for all tiers. When a tier ticks, the widest one that does runs.\n" + tierComments(s, "#   ")
	if t.Hidden {
		text += "# The database's URL may hold a password and is left out: set it here, or in the configuration.\n#BACKLOG_DATABASE=\n"
	}
	flags := append([]string{"--wait", "50s"}, t.Flags...) // a tick that meets the end of another's pass is not lost
	// Cron mails what is printed. A tick without work and another pass that still runs
	// are normal; an outage and its end are worth a mail.
	if !slices.Contains(flags, "--log-level") {
		flags = append(flags, "--log-level", "warn")
	}
	return text + fmt.Sprintf("%s * * * *  cd %s && %s >/dev/null\n", minutes(s, "*"), forCrontab(t.Folder), t.command(forCrontab, flags))
}

// systemdUnits are two files, with places for what differs.
//
//go:embed systemd.units
var systemdUnits string

// Systemd returns a timer and a service for systemd that lose no tick of the schedule.
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

// command returns the command line, its arguments quoted.
func (t Timer) command(quoted func(string) string, flags []string) string {
	line := quoted(t.Program) + " once --due"
	for _, f := range flags {
		line += " " + quoted(f)
	}
	return line
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
