package propose

import (
	"encoding/json"
	"math"
	"testing"
	"time"

	"backlog/backlog/advise"
	"backlog/tiers"
)

func near(t *testing.T, what string, got, want, exact float64) {
	t.Helper()
	if math.Abs(got-want) > exact {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

func TestTable(t *testing.T) {
	const mean = 7200
	c := newTable(func(age float64) float64 { return math.Exp(-age / mean) }, 10*day)
	for _, age := range []float64{0, 0.1, 1, 59, 60, 299, 7200, 86400, 5 * day} {
		near(t, "curve", c.at(age), math.Exp(-age/mean), 1e-4)
		near(t, "integral", c.integral(age)/mean, -math.Expm1(-age/mean), 1e-3)
	}
	near(t, "beyond the oldest age", c.at(20*day), c.at(10*day), 0)
	near(t, "integral beyond the oldest age", c.integral(20*day)-c.integral(10*day), 10*day*c.at(10*day), 1e-9)
	for i, age := range c.ages[:len(c.ages)-1] {
		if got := c.cell(age); got != i {
			t.Fatalf("%v is in cell %d, want %d", age, got, i)
		}
	}
}

// Recoveries in the five minutes until eight o'clock wait for ticks as the clock says.
func TestPhase(t *testing.T) {
	slots := new(advise.Slots)
	slots[8*12-1] = 1
	for _, c := range []struct {
		every, mean float64
	}{
		{60, 30}, {300, 150}, {3600, 150}, {8 * 3600, 150}, {12 * 3600, 4*3600 + 150}, {day, 16*3600 + 150}, {2 * day, 16*3600 + 12*3600 + 150},
		{7 * 3600, 7 * 1800}, {420, 210},
	} {
		p := newPhase(slots, c.every)
		near(t, "mean", p.mean, c.mean, 1e-6)
		near(t, "longer than nothing", p.longer(0), 1, 1e-12)
		near(t, "longer than the interval", p.longer(c.every), 0, 0)
		sum := 0.0
		for x := 0.5; x < c.every; x++ {
			sum += p.longer(x)
		}
		near(t, "integral of longer", sum, c.mean, 1)
	}
	near(t, "at any time", newPhase(nil, 100).longer(25), 0.75, 1e-12)
}

func TestQuantile(t *testing.T) {
	even := func(than float64) float64 { return 2 * (1 - than/100) }
	near(t, "even", waits{2, 100, even, 1e-4}.quantile(0.95), 95, 0.02)
	steps := func(than float64) float64 {
		switch {
		case than < 300:
			return 1
		case than < 90000:
			return 0.2
		}
		return 0
	}
	near(t, "first step", waits{1, 700000, steps, 1e-4}.quantile(0.5), 300, 0.1)
	near(t, "second step", waits{1, 700000, steps, 1e-4}.quantile(0.95), 90000, 10)
	near(t, "nothing recovers", waits{0, 100, even, 1e-4}.quantile(0.95), 0, 0)
	if q := (waits{1, 100, func(float64) float64 { return 0.06 }, 1e-4}).quantile(0.95); !infinite(q) {
		t.Errorf("too many are lost: %v", q)
	}
}

func TestStepsOf(t *testing.T) {
	for _, c := range []struct {
		what   string
		closed bool
		list   []tiers.Tier
	}{
		{"multiples", true, []tiers.Tier{{MaxAge: time.Hour, Every: 5 * time.Minute}, {MaxAge: 5 * time.Hour, Every: time.Hour}}},
		{"no multiple", false, []tiers.Tier{{MaxAge: time.Hour, Every: 7 * time.Minute}, {MaxAge: 5 * time.Hour, Every: time.Hour}}},
		{"narrower than its interval", false, []tiers.Tier{{MaxAge: time.Hour, Every: 5 * time.Minute}, {MaxAge: 2 * time.Hour, Every: 2 * time.Hour}}},
		{"offset", false, []tiers.Tier{{MaxAge: time.Hour, Every: 5 * time.Minute, Offset: time.Second}}},
		{"cron", false, []tiers.Tier{{MaxAge: time.Hour, Cron: "* * * * *"}}},
	} {
		s, err := tiers.New(c.list...)
		if err != nil {
			t.Fatal(err)
		}
		if _, closed := stepsOf(s); closed != c.closed {
			t.Errorf("%s: %v", c.what, closed)
		}
	}
}

func TestRounded(t *testing.T) {
	for x, want := range map[float64]string{0: "0", 0.01234: "0.0123", 0.02: "0.02", 1.234: "1.23", 12.34: "12.3", 123.4: "123", 123456: "123,456"} {
		if got := rounded(x); got != want {
			t.Errorf("%v: %s, want %s", x, got, want)
		}
	}
	for x, want := range map[float64]string{0: "0s", 59.6: "1m", 601: "10m", 3666: "1h1m", 90000: "1d1h", math.Inf(1): "for ever"} {
		if got := roundedDuration(x); got != want {
			t.Errorf("%v: %s, want %s", x, got, want)
		}
	}
}

// Tiers of today beyond what is known stay, unless the tier before ticks less often.
func TestTail(t *testing.T) {
	s := &space{beyond: []step{{30 * day, day}, {180 * day, 4 * day}}, cron: make([]bool, 2)}
	for _, c := range []struct {
		every float64
		ok    bool
		tail  string
	}{
		{3600, true, "[{2592000 86400} {15552000 345600}]"},
		{day, true, "[{2592000 86400} {15552000 345600}]"},
		{2 * day, false, "[]"},
		{5 * 3600, false, "[]"},
	} {
		tail, ok := s.tail(step{7 * day, c.every})
		if ok != c.ok || ok && len(tail) != 2 {
			t.Errorf("%v: %v, %v", c.every, tail, ok)
		}
	}
	s.beyond = []step{{30 * day, 300}}
	s.cron = s.cron[:1]
	if tail, ok := s.tail(step{7 * day, 3600}); !ok || tail[0] != (step{30 * day, 3600}) {
		t.Errorf("%v, %v", tail, ok)
	}
}

// The same inputs give the same bytes.
func TestSameBytes(t *testing.T) {
	today, err := tiers.New(tiers.Tier{Name: "often", MaxAge: 24 * time.Hour, Every: 5 * time.Minute}, tiers.Tier{MaxAge: 7 * 24 * time.Hour, Cron: "0 3 * * *"})
	if err != nil {
		t.Fatal(err)
	}
	in := &Inputs{PerHour: 100, Broken: func(age float64) float64 { return 0.1 + 0.1*math.Exp(-age/7200) }, Oldest: 4 * 24 * time.Hour}
	in.Drawn = []Curve{in.Broken}
	first := ""
	for range 2 {
		r := Search(in, today, Wishes{Lost: -1})
		text, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		if first != "" && first != string(text) {
			t.Errorf("first %s\nthen %s", first, text)
		}
		first = string(text)
		for _, p := range r.Proposals {
			if p.Tiers[len(p.Tiers)-1].Cron != "0 3 * * *" {
				t.Errorf("%s has lost the cron tier: %v", p.Name, p.Tiers)
			}
		}
	}
}
