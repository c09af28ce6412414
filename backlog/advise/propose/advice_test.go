package propose_test

import (
	"bytes"
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"backlog/backlog/advise"
	"backlog/backlog/advise/propose"
	"backlog/internal/testkit"
	"backlog/internal/worlds"
	"backlog/tiers"
)

// learn returns what the passes of a world tell.
func learn(w *worlds.World) *advise.Model { return advise.Fit(&advise.History{Passes: w.Play()}) }

// tiersOf returns the schedule of a world.
func tiersOf(t *testing.T, w *worlds.World) *tiers.Schedule {
	t.Helper()
	var list []tiers.Tier
	for _, x := range w.Tiers {
		list = append(list, tiers.Tier{MaxAge: time.Duration(x.MaxAge) * time.Second, Every: time.Duration(x.Every) * time.Second})
	}
	return testkit.Schedule(t, list...)
}

// ask returns the advice.
func ask(t testing.TB, m *advise.Model, s *tiers.Schedule, w propose.Wishes) *propose.Advice {
	t.Helper()
	a, err := propose.Advise(m, propose.Question{Schedule: s, Wishes: w})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// halfAnHour is what most tests wish for.
var halfAnHour = propose.Wishes{Wait: 30 * time.Minute, Lost: -1}

func TestAdvise(t *testing.T) {
	few := worlds.New(worlds.Truths[0], 0.05, 3)
	few.Days = 14
	few.PerDay = 60
	for _, c := range []struct {
		name   string
		world  *worlds.World
		want   propose.Kind
		reason string
	}{
		{"a better one", worlds.Examples["shop"](), propose.Propose, "calls a day instead of"},
		{"three days", worlds.Examples["young shop"](), propose.Wait, "the passes are of 3.0 days, and a week is needed"},
		{"few records", few, propose.Wait, "known only to be between"},
		{"tries heal", worlds.Examples["lottery"](), propose.Impossible, "tries heal"},
	} {
		a := ask(t, learn(c.world), tiersOf(t, c.world), halfAnHour)
		if a.Kind != c.want || !strings.Contains(strings.Join(a.Reasons, "; "), c.reason) {
			t.Errorf("%s: %s, because %q", c.name, a.Kind, a.Reasons)
		}
		if a.Proposals[0].Name != "today" || a.HasYAML() != (c.want == propose.Propose) {
			t.Errorf("%s: %+v", c.name, a.Proposals)
		}
		if c.want == propose.Wait && (a.WaitDays == nil || *a.WaitDays < 1 || *a.WaitDays > 365) {
			t.Errorf("%s: wait for %v days", c.name, a.WaitDays)
		}
		if again := ask(t, learn(c.world), tiersOf(t, c.world), halfAnHour); again.Text() != a.Text() {
			t.Errorf("%s: it says something else the second time", c.name)
		}
	}
}

// What is proposed is good advice: asked again with it as today's schedule, the answer is to keep it.
func TestProposedIsKept(t *testing.T) {
	w := worlds.Examples["shop"]()
	m := learn(w)
	proposed := ask(t, m, tiersOf(t, w), halfAnHour).Proposals[1]
	a := ask(t, m, testkit.Schedule(t, proposed.Tiers...), halfAnHour)
	if a.Kind != propose.Keep || a.YAML() == "" {
		t.Errorf("%s: %q", a.Kind, a.Reasons)
	}
}

func TestWarnings(t *testing.T) {
	w := worlds.Examples["shop"]()
	m := learn(w)
	m.LeftOut = advise.LeftOut{NoAges: 2, Unreadable: 1, OtherTable: 1234, Clock: 1, Incomplete: 1}
	m.Retried = 7
	m.Incomplete = []advise.IncompleteBand{{Band: 3, Attempts: 10, Incomplete: 2}, {Band: len(advise.Edges), Attempts: 4, Incomplete: 4}}
	m.Changed = worlds.Start
	a := ask(t, m, tiersOf(t, w), propose.Wishes{Wait: 2 * time.Minute, Lost: -1})
	all := strings.Join(a.Warnings, "\n")
	for _, want := range []string{
		"behaviour changed on about 2026-01-05",
		"2 passes were written by a version that did not count by age: nothing is learned from them",
		"1 line cannot be read: nothing is learned from it",
		"1,234 passes are of another table than the newest",
		"1 pass is out of order, since the clock was set",
		"1 pass did not try all its records",
		"nothing is learned from the ages up to 10m, any: more than a tenth",
		"7 records were first tried by the first pass that is known",
		"nothing was tried more often than every 5m",
		"taken for granted that they recover with time",
	} {
		if !strings.Contains(all, want) {
			t.Errorf("no %q in:\n%s", want, all)
		}
	}
}

// What cannot be written as JSON, such as a wait for ever, is null.
func TestAdviceJSON(t *testing.T) {
	p := propose.Proposal{Name: "today", Tiers: testkit.Schedule(t,
		tiers.Tier{MaxAge: time.Hour, Every: time.Minute, Offset: time.Second},
		tiers.Tier{Name: "night", MaxAge: 24 * time.Hour, Cron: "0 3 * * *"},
	).Tiers()}
	p.Figures.Wait.P95.High = math.Inf(1)
	p.Figures.CallsPerDay.Value = 1234.56789
	text, err := json.Marshal(p)
	const want = `{"name":"today","tiers":[{"max_age":"1h","every":"1m","offset":"1s"},{"name":"night","max_age":"1d","cron":"0 3 * * *","timezone":"UTC"}],` +
		`"calls_per_day":{"value":1234.57,"low":0,"high":0},"in_vain_per_day":{"value":0,"low":0,"high":0},"peak":0,` +
		`"wait_seconds":{"p50":{"value":0,"low":0,"high":0},"p95":{"value":0,"low":0,"high":null}},"new_wait_seconds":0,"recovery_seconds":0,` +
		`"lost_per_1000":{"value":0,"low":0,"high":0}}`
	if err != nil || string(text) != want {
		t.Errorf("%v: %s", err, text)
	}
}

// Tiers that are kept are written with all their settings.
func TestAdviceYAML(t *testing.T) {
	w := worlds.Examples["shop"]()
	schedule := testkit.Schedule(t,
		tiers.Tier{MaxAge: time.Hour, Every: 5 * time.Minute, Offset: time.Second},
		tiers.Tier{Name: "night", MaxAge: 30 * 24 * time.Hour, Cron: "0 3 * * *"},
	)
	a := ask(t, learn(w), schedule, halfAnHour)
	a.Kind = propose.Keep
	got := a.YAML()
	for _, want := range []string{
		"tiers:\n  # new records, and ",
		"\n  - {max_age: 1h, every: 5m, offset: 1s}\n",
		"\n  - {name: \"night\", max_age: 30d, cron: \"0 3 * * *\", timezone: UTC}\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in %s", want, got)
		}
	}
}

// Pictures are drawn of whatever is known, too.
func TestAdvicePlot(t *testing.T) {
	lost := worlds.Examples["shop"]()
	lost.Tiers = []worlds.Tier{{MaxAge: worlds.Hour, Every: 5 * worlds.Minute}}
	for name, m := range map[string]*advise.Model{
		"a proposal": learn(worlds.Examples["shop"]()),
		"three days": learn(worlds.Examples["young shop"]()),
		"nothing":    advise.Fit(&advise.History{}),
		"many lost":  learn(lost),
	} {
		a := ask(t, m, tiersOf(t, lost), halfAnHour)
		var b bytes.Buffer
		if err := a.Plot(&b, "svg"); err != nil || !strings.Contains(b.String(), "still broken") || strings.Contains(b.String(), "NaN") {
			t.Errorf("%s: %v\n%s", name, err, b.String())
		}
	}
}

// BenchmarkAdvise reads 90 days of 300 passes and looks for a schedule.
func BenchmarkAdvise(b *testing.B) {
	w := worlds.New(worlds.Truths[3], 0.05, 8).WithOutages()
	w.Days = 90
	w.PerDay = 500
	file := worlds.Lines("orders", w.Play())
	s := testkit.Schedule(b, tiers.Tier{MaxAge: 24 * time.Hour, Every: 5 * time.Minute}, tiers.Tier{MaxAge: 30 * 24 * time.Hour, Every: time.Hour})
	b.SetBytes(int64(len(file)))
	b.ReportAllocs()
	for b.Loop() {
		h, err := advise.Read(bytes.NewReader(file))
		if err != nil {
			b.Fatal(err)
		}
		ask(b, advise.Fit(h), s, halfAnHour)
	}
}
