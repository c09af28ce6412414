package cmd_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/robfig/cron/v3"

	"backlog/cmd"
)

// schedules are exported and must not lose a tick.
var schedules = []struct{ name, tiers string }{
	{"usual", "[{max_age: 1d, every: 5m}, {max_age: 7d, every: 1h}, {max_age: 14d, every: 12h}, {max_age: 30d, every: 24h}, {max_age: 180d, every: 96h}]"},
	{"each minute", "[{max_age: 1d, every: 1m}]"},
	{"seconds", "[{max_age: 1d, every: 7s}, {max_age: 2d, every: 30s}]"},
	{"a minute and a half", "[{max_age: 1d, every: 90s}]"},
	{"two minutes and a half", "[{max_age: 1d, every: 150s}]"},
	{"seconds of offset", "[{max_age: 1d, every: 5m, offset: 30s}]"},
	{"minutes of offset", "[{max_age: 1d, every: 10m, offset: 4m}, {max_age: 2d, every: 1h, offset: 12m}]"},
	{"no divisor of an hour", "[{max_age: 1d, every: 7m}, {max_age: 2d, every: 25m}]"},
	{"no divisor of a day", "[{max_age: 1d, every: 7h}, {max_age: 2d, every: 50h}]"},
	{"quarters", "[{max_age: 1d, every: 15m}]"},
	{"half hours", "[{max_age: 1d, every: 30m}]"},
	{"hours", "[{max_age: 1d, every: 1h}]"},
	{"hours and a minute", "[{max_age: 1d, every: 61m}]"},
	{"cron", "[{max_age: 1d, every: 1h}, {max_age: 2d, cron: '17 3 * * *', timezone: Asia/Kathmandu}]"},
}

// zones are where the machine's clock may be set to: a whole number of hours
// off UTC, and not.
var zones = []string{"UTC", "America/New_York", "America/St_Johns", "Asia/Kathmandu", "Asia/Kolkata", "Australia/Lord_Howe"}

var (
	crontabLine = regexp.MustCompile(`(?m)^(\S+ \* \* \* \*)  cd `)
	onCalendar  = regexp.MustCompile(`(?m)^OnCalendar=\*-\*-\* \*:(\S+):00 UTC$`)
)

// TestExport feeds the exported lines to a parser of their own and makes sure
// that each tick is followed, within its minute, by a run of "once --due".
func TestExport(t *testing.T) {
	for _, s := range schedules {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			config := filepath.Join(t.TempDir(), "schedule.yaml")
			if err := os.WriteFile(config, []byte("tiers: "+s.tiers+"\n"), 0o644); err != nil {
				t.Fatal(err)
			}
			crontab := submatch(t, crontabLine, exported(t, config, "crontab"))
			minute := submatch(t, onCalendar, exported(t, config, "systemd"))
			calendar := strings.NewReplacer("00/", "*/", "00", "0").Replace(minute) + " * * * *"
			ticks := coming(t, config)
			for _, zone := range zones {
				coversTicks(t, "crontab", crontab, zone, ticks)
			}
			coversTicks(t, "systemd", calendar, "UTC", ticks)
		})
	}
}

// exported returns the schedule in the format. That a tier ticks more often than
// a timer can is said beside it.
func exported(t *testing.T, config, format string) string {
	t.Helper()
	var out, err bytes.Buffer
	if status := cmd.Main([]string{"schedule", "--config", config, "--format", format}, strings.NewReader(""), &out, &err); status != 0 {
		t.Fatalf("exit status %d: %s", status, &err)
	}
	return out.String()
}

func submatch(t *testing.T, re *regexp.Regexp, text string) string {
	t.Helper()
	m := re.FindStringSubmatch(text)
	if m == nil {
		t.Fatalf("no match for %v in:\n%s", re, text)
	}
	return m[1]
}

// coming returns the ticks of four days, among them one on which a clock is
// put forward.
func coming(t *testing.T, config string) (ticks []time.Time) {
	t.Helper()
	var list []struct{ At time.Time }
	text := run(t, "schedule", "--config", config, "--from", "2026-03-06T00:00:00Z", "--for", "4d", "--json")
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		t.Fatal(err)
	}
	for _, tick := range list {
		ticks = append(ticks, tick.At)
	}
	if len(ticks) == 0 {
		t.Fatal("no ticks at all")
	}
	return ticks
}

// coversTicks fails unless the expression, by the clock of the zone, fires in
// the minute that begins with the tick or is the next to begin.
func coversTicks(t *testing.T, what, spec, zone string, ticks []time.Time) {
	t.Helper()
	fires, err := cron.ParseStandard(fmt.Sprintf("CRON_TZ=%s %s", zone, spec))
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	for _, tick := range ticks {
		fire := tick.Truncate(time.Minute)
		if fire.Before(tick) {
			fire = fire.Add(time.Minute)
		}
		if next := fires.Next(fire.Add(-time.Second)); !next.Equal(fire) {
			t.Fatalf("%s: the tick at %v is lost: %q, by the clock of %s, fires next at %v", what, tick, spec, zone, next.UTC())
		}
	}
}
