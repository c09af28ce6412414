package config_test

import (
	"strings"
	"testing"
	"time"

	"backlog/backlog/config"
	"backlog/backlog/handler/exec"
	"backlog/backlog/mapping"
	"backlog/internal/testkit"
)

// set loads a file with one setting besides the tiers.
func set(t *testing.T, setting string) *config.Config {
	t.Helper()
	return loadText(t, setting+"\ntiers: [{max_age: 1d, every: 5m}]\n")
}

func TestRate(t *testing.T) {
	for text, want := range map[string]float64{
		"10/s": 10, "10/sec": 10, "10/second": 10, `"10/s"`: 10, "10 / s": 10, "0.5/s": 0.5,
		"90/m": 1.5, "90/min": 1.5, "90/minute": 1.5,
		"5400/h": 1.5, "5400/hour": 1.5, "86400/d": 1, "86400/day": 1,
	} {
		testkit.Equal(t, text, set(t, "rate: "+text).Rate, want)
	}
}

func TestDuration(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"0": 0, "0s": 0, "250ms": 250 * time.Millisecond, "5 minutes": 5 * time.Minute, `"1d12h"`: 36 * time.Hour,
		"hourly": time.Hour, "2w": 14 * 24 * time.Hour,
	} {
		testkit.Equal(t, text, set(t, "shutdown_timeout: "+text).ShutdownTimeout, want)
	}
}

func TestTimeForm(t *testing.T) {
	for _, form := range []string{
		"native", "unix_s", "unix_ms", "unix_us", "julian",
		"text:2006-01-02 15:04:05", "text:2006-01-02", "text:20060102150405", "text:02.01.06 15:04",
		"text:2006-01-02T15:04:05.999999999Z07:00", "text:Mon Jan _2 15:04:05 MST 2006",
	} {
		c := set(t, "table: {inserted: {column: created, as: '"+form+"'}}")
		testkit.Equal(t, form, c.Table.Inserted.As, form)
	}
}

func TestExpand(t *testing.T) {
	for text, want := range map[string]string{
		"plain": "plain", "${STATE}": "/var/lib", "a${STATE}b${STATE}": "a/var/libb/var/lib", "a${EMPTY}b": "ab",
		"$": "$", "$STATE": "$STATE", "$$": "$$", "a$": "a$", "{STATE}": "{STATE}",
		"$${STATE}": "${STATE}", "$${": "${", "$$${STATE}": "$${STATE}", "$${${STATE}": "${/var/lib",
		"${PASSWORD}": "p${STATE}w", // what a variable holds is left alone
	} {
		testkit.Equal(t, text, set(t, "state: '"+text+"'").State, want)
	}
}

// TestNotExpanded holds that arguments are passed as they are written.
func TestNotExpanded(t *testing.T) {
	testkit.Equal(t, "exec", set(t, "handler: {exec: ['${STATE}', '$${X}']}").Handler.Settings.(*exec.Settings).Command, []string{"${STATE}", "$${X}"})
}

func TestQuoted(t *testing.T) {
	c := set(t, "statuses:\n  new: [a, 'b', \"c\"]\n  error: |-\n    e\n  success: >-\n    f\n")
	testkit.Equal(t, "new", c.Table.New.Values, []mapping.Value{
		{Text: "a"}, {Text: "b", Quoted: true}, {Text: "c", Quoted: true}})
	testkit.Equal(t, "error", c.Table.Error.Values, []mapping.Value{{Text: "e", Quoted: true}})
	testkit.Equal(t, "success", c.Table.Success.Values, []mapping.Value{{Text: "f", Quoted: true}})
}

func TestQuotedKeep(t *testing.T) {
	c := set(t, "statuses: {error: 'keep'}")
	testkit.Equal(t, "error", c.Table.Error, mapping.State{Values: []mapping.Value{{Text: "keep", Quoted: true}}, Explicit: true})
}

// TestCoincide holds that error may be the same as new or dead.
func TestCoincide(t *testing.T) {
	set(t, "statuses: {new: [TODO], error: TODO}")
	set(t, "statuses: {error: FAILED, dead: FAILED}")
}

func TestLineEndings(t *testing.T) {
	const text = "\ufeffmax_records: 5\r\ntiers:\r\n  - {max_age: 1d, every: 5m}\r\n"
	testkit.Equal(t, "max_records", loadText(t, text).MaxRecords, 5)

	_, err := config.Load(strings.NewReader(strings.Replace(text, "1d", "x", 1)), "s.yaml", lookup, all)
	if err == nil || !strings.HasPrefix(err.Error(), "s.yaml:3: tiers[0].max_age: ") {
		t.Errorf("got %v", err)
	}
}
