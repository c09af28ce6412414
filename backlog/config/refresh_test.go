package config_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"backlog/backlog/config"
	"backlog/backlog/retry"
	"backlog/internal/testkit"
)

func loadRefresh(t *testing.T, settings, more string) (*config.Config, error) {
	t.Helper()
	text := "table: {name: banners}\npolicy:\n  refresh:\n    " + strings.ReplaceAll(settings, "\n", "\n    ") + "\ntiers: [{every: 1m}]\n" + more
	return config.Load(strings.NewReader(text), "a.yaml", func(string) (string, bool) { return "", false }, config.Known{Policies: known})
}

// Every setting of the policy refresh is read, and the sentences are these settings.
func TestRefreshSettings(t *testing.T) {
	const twice = "1. Refresh BigTable twice per day at 6 AM and 4 PM\n2. Allow 1 hour to complete\n3. Retry policy:\n   - On the first failure, retry immediately.\n4. Give up after the final unsuccessful retry"
	for _, c := range []struct{ settings, want string }{
		{
			settings: `every: 2h
timeout: PT1H`,
			want: `{"name":"refresh","every_seconds":7200,"timeout_seconds":3600,"intervals_seconds":[0,60,300,900,1800,3600],"align":true,"after_last":"disable"}`,
		},
		{
			settings: `schedule: none
timeout: 1m
intervals: [0, PT5M]
align: false
after_last: wait
give_up_after: P7D
reason: 'no: {error}'`,
			want: `{"name":"refresh","schedule":"none","timeout_seconds":60,"intervals_seconds":[0,300],"align":false,"after_last":"wait","give_up_after_seconds":604800,"reason":"no: {error}"}`,
		},
		{
			settings: `rrule: {column: refresh_rrule}
timeout: 1m`,
			want: `{"name":"refresh","rrule_column":"refresh_rrule","timeout_seconds":60,"intervals_seconds":[0,60,300,900,1800,3600],"align":true,"after_last":"disable"}`,
		},
		{
			settings: `rrule: FREQ=DAILY;BYHOUR=6,16;BYMINUTE=0;BYSECOND=0
anchor: day
timeout: 1h
intervals: [0]`,
			want: `{"name":"refresh","rrule":"FREQ=DAILY;BYHOUR=6,16;BYMINUTE=0;BYSECOND=0","timeout_seconds":3600,"intervals_seconds":[0],"align":true,"after_last":"disable"}`,
		},
		{
			settings: "expr: |\n  " + strings.ReplaceAll(twice, "\n", "\n  "),
			want:     `{"name":"refresh","rrule":"FREQ=DAILY;BYHOUR=6,16;BYMINUTE=0;BYSECOND=0","timeout_seconds":3600,"intervals_seconds":[0],"align":true,"after_last":"disable"}`,
		},
	} {
		cfg, err := loadRefresh(t, c.settings, "timezone: Europe/Berlin\n")
		if err != nil {
			t.Errorf("%s: %v", c.settings, err)
			continue
		}
		settings := cfg.Policy.Settings.(*retry.Refresh)
		if got, err := json.Marshal(settings); err != nil || string(got) != c.want {
			t.Errorf("%s:\ngot  %s\nwant %s", c.settings, got, c.want)
		}
		testkit.Equal(t, c.settings+": zone", settings.Zone.String(), "Europe/Berlin")
		testkit.Equal(t, c.settings+": the handler's timeout, the policy's", cfg.Handler.Timeout, settings.Timeout)
		widest := cfg.Tiers.Widest()
		testkit.Equal(t, c.settings+": the widest tier", widest.Name, "1m")
		if widest.MaxAge < 99*365*24*time.Hour {
			t.Errorf("%s: the widest tier reaches %v, want 99 years", c.settings, widest.MaxAge)
		}
	}
}

func TestRefreshRefuses(t *testing.T) {
	for _, c := range []struct{ settings, more, want string }{
		{settings: "timeout: 1h", want: "a.yaml:3: policy.refresh.every: missing, and so are rrule and schedule; say when, such as every: 2h"},
		{settings: "every: 2h", want: "a.yaml:3: policy.refresh.timeout: missing or 0; say how long an attempt may take, such as timeout: 1h"},
		{
			settings: `every: 2h
timeout: 1h
schedule: none`,
			want: "a.yaml:4: policy.refresh.every: rrule, every and schedule each say when; keep one of them",
		},
		{
			settings: `every: 2h
timeout: 1h
intervals: []`,
			want: "a.yaml:6: policy.refresh.intervals: is an empty list; name at least one interval",
		},
		{
			settings: `rrule: FREQ=HOURLY;BYHOUR=1
timeout: 1h`,
			want: "a.yaml:4: policy.refresh.rrule: ",
		},
		{
			settings: `every: 2h
timeout: 1h
reason: 'gave up {foo}'`,
			want: "a.yaml:6: policy.refresh.reason: {foo} is unknown; known here: {attempts}, {error}, {failing_since}",
		},
		{settings: "expr: Refresh it now and then", want: "a.yaml:4: policy.refresh.expr: line 1: "},
		{
			settings: `every: 2h
expr: Refresh it every 2 hours`,
			want: "a.yaml:5: policy.refresh.expr: says all but columns and anchor; remove the other settings, or expr",
		},
		{
			settings: `every: 2h
timeout: 1h`,
			more: "handler: {timeout: 2h}\n",
			want: "a.yaml:7: handler.timeout: 2h is longer than the policy's timeout of 1h, after which an attempt has failed; write 1h or less, or leave it out",
		},
		{
			settings: `expr: |
  Refresh it every 2 hours
  Allow 1 hour
  On the first failure, retry immediately
  Give up after one week of unsuccessful refresh attempts
  Email the customer that it is off`,
			want: "a.yaml:4: policy.refresh.expr: says that the customer is told, and nothing does it; add on_dead: {mail: …}, or remove the sentence",
		},
	} {
		_, err := loadRefresh(t, c.settings, c.more)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v\nwant %s", c.settings, err, c.want)
		}
	}
	for text, want := range map[string]string{
		"tiers: [{every: 1m, max_age: 1d}]":      "a.yaml:1: tiers[0].max_age: the policy refresh looks at rows of any age; remove it, as in tiers: [{every: 1m}]",
		"tiers: []":                              "a.yaml:1: tiers: is an empty list; a schedule needs at least one: tiers: [{every: 1m}]",
		"tiers: [{every: 1m}, {every: 1h}]":      "a.yaml:1: tiers: has 2 tiers; with the policy refresh one says how often to look: tiers: [{every: 1m}]",
		"tiers: [{cron: '* * * * *', every: 1}]": "tiers[0].every",
	} {
		_, err := config.Load(strings.NewReader(text+"\npolicy: {refresh: {every: 2h, timeout: 1h}}\n"), "a.yaml", func(string) (string, bool) { return "", false }, config.Known{Policies: known})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v\nwant %s", text, err, want)
		}
	}
}
