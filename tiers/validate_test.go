package tiers_test

import (
	"reflect"
	"testing"
	"time"

	"backlog/internal/testkit"
	"backlog/tiers"
)

func TestNewRefuses(t *testing.T) {
	const (
		s = time.Second
		h = time.Hour
	)
	every := func(maxAge, every time.Duration) tiers.Tier { return tiers.Tier{MaxAge: maxAge, Every: every} }
	cron := func(expr string) []tiers.Tier { return []tiers.Tier{{MaxAge: day, Cron: expr}} }
	tests := []struct {
		name string
		list []tiers.Tier
		want string
	}{
		{"no tiers", nil, "tiers: a schedule needs at least one tier"},
		{"no max_age", []tiers.Tier{{Every: h}}, "tier 1: max_age: must be positive, not 0s"},
		{"negative max_age", []tiers.Tier{every(-h, h)}, "tier 1: max_age: must be positive, not -1h"},
		{"neither", []tiers.Tier{{MaxAge: day}},
			"tier 1: every: missing or zero: a tier needs every (at least 1s) or cron"},
		{"both", []tiers.Tier{{MaxAge: day, Every: h, Cron: "@daily"}},
			"tier 1: cron: a tier has every or cron, not both"},
		{"negative", []tiers.Tier{every(day, -5*time.Minute)}, "tier 1: every: must be at least 1s, not -5m"},
		{"below a second", []tiers.Tier{every(day, s/2)}, "tier 1: every: must be at least 1s, not 500ms"},
		{"fraction", []tiers.Tier{every(day, 3*s/2)}, "tier 1: every: must be whole seconds, not 1.5s"},
		{"negative offset", []tiers.Tier{{MaxAge: day, Every: h, Offset: -s}},
			"tier 1: offset: must be at least 0s and less than every (1h), not -1s"},
		{"offset too great", []tiers.Tier{{MaxAge: day, Every: h, Offset: h}},
			"tier 1: offset: must be at least 0s and less than every (1h), not 1h"},
		{"offset fraction", []tiers.Tier{{MaxAge: day, Every: h, Offset: 5 * s / 2}},
			"tier 1: offset: must be whole seconds, not 2.5s"},
		{"offset with cron", []tiers.Tier{{MaxAge: day, Cron: "@daily", Offset: s}},
			"tier 1: offset: goes with every, not with cron"},
		{"timezone with every", []tiers.Tier{{MaxAge: day, Every: h, Location: time.UTC}},
			"tier 1: timezone: goes with cron; every is counted in UTC"},
		{"wide to narrow", []tiers.Tier{every(7*day, h), every(day, h)},
			"tier 2: max_age: 1d after 7d: tiers go from narrow to wide"},
		{"same max_age", []tiers.Tier{every(day, h), every(7*day, h), every(7*day, h)},
			"tier 3: max_age: 7d after 7d: tiers go from narrow to wide"},
		{"same name", []tiers.Tier{{Name: "7d", MaxAge: day, Every: h}, every(7*day, h)},
			`tier 2: name: "7d" is taken by a tier before`},

		{"blank", cron("  "),
			`tier 1: cron: "" has 0 fields, not five: minute, hour, day of month, month, day of week`},
		{"six fields", cron("0 0 3 * * *"),
			`tier 1: cron: "0 0 3 * * *" has 6 fields, not five: minute, hour, day of month, month, day of week`},
		{"@every", cron("@every 5m"),
			"tier 1: cron: @every counts from the start of the process: give the interval as every"},
		{"TZ", cron(" TZ=Europe/Berlin 0 3 * * *"),
			"tier 1: cron: a zone in front is not accepted: give it as timezone"},
		{"TZ that panics", cron("TZ=0"), "tier 1: cron: a zone in front is not accepted: give it as timezone"},
		{"CRON_TZ that panics", cron("cron_tz=UTC"),
			"tier 1: cron: a zone in front is not accepted: give it as timezone"},
		{"descriptor", cron("@reboot"), `tier 1: cron: "@reboot": unrecognized descriptor: @reboot`},
		{"minute 60", cron("60 * * * *"),
			`tier 1: cron: "60 * * * *": end of range (60) above maximum (59): 60`},
		{"Sunday as 7", cron("0 0 * * 7"),
			`tier 1: cron: "0 0 * * 7": end of range (7) above maximum (6): 7 (Sunday is 0 or sun)`},
		{"step 0", cron("*/0 * * * *"),
			`tier 1: cron: "*/0 * * * *": step of range should be a positive number: */0`},
		{"only a comma", cron(", * * * *"), `tier 1: cron: ", * * * *": "," is not a field of a cron expression`},
		{"star to number", cron("*-5 * * * *"),
			`tier 1: cron: "*-5 * * * *": "*-5" is not a field of a cron expression`},
		{"30 February", cron("0 0 30 2 *"),
			`tier 1: cron: "0 0 30 2 *" never ticks: no month it names has such a day`},
		{"31 of short months", cron("0 0 31 2,4,6,9,11 *"),
			`tier 1: cron: "0 0 31 2,4,6,9,11 *" never ticks: no month it names has such a day`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := tiers.New(test.list...)
			if err == nil || err.Error() != test.want {
				t.Errorf("error  %v\nwant   %s", err, test.want)
			}
		})
	}
}

func TestNewCompletes(t *testing.T) {
	s := testkit.Schedule(t,
		tiers.Tier{Name: "young", MaxAge: day, Every: time.Hour},
		tiers.Tier{MaxAge: 36 * time.Hour, Cron: "\t0  3 * * MON-FRI "},
	)
	got := s.Tiers()
	if got[0].Name != "young" || got[0].Location != nil {
		t.Errorf("first is %v", got[0])
	}
	if got[1].Name != "1d12h" || got[1].Cron != "0 3 * * MON-FRI" || got[1].Location != time.UTC {
		t.Errorf("second is %v", got[1])
	}
	if again := testkit.Schedule(t, got...).Tiers(); !reflect.DeepEqual(again, got) {
		t.Errorf("New of its own tiers returns %v, want %v", again, got)
	}
}

func TestNextPanicsOnUncompiledTier(t *testing.T) {
	for _, tier := range []tiers.Tier{{}, {MaxAge: day, Cron: "@daily"}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%v: no panic", tier)
				}
			}()
			tier.Next(time.Time{})
		}()
	}
}
