package retry_test

import (
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"backlog/backlog"
	"backlog/backlog/mapping"
	"backlog/backlog/retry"
)

// farOff is as many failures as a curve has to be right for.
const farOff = 1_000_000

// longest is the greatest random number in [0, 1).
var longest = math.Nextafter(1, 0)

// anyDuration draws short and long ones alike.
func anyDuration(least time.Duration) *rapid.Generator[time.Duration] {
	return rapid.OneOf(
		rapid.Custom(func(t *rapid.T) time.Duration {
			return time.Duration(rapid.Int64Range(int64(least), math.MaxInt64).Draw(t, "ns"))
		}),
		rapid.Custom(func(t *rapid.T) time.Duration {
			return max(least, time.Duration(rapid.IntRange(0, 100_000).Draw(t, "s"))*time.Second)
		}),
	)
}

// anyPolicy draws a policy with some of its settings.
func anyPolicy(t *rapid.T) (retry.Settings, *backlog.Policy) {
	s := retry.New(rapid.SampledFrom(curveNames()).Draw(t, "policy"))
	for _, f := range keysOf(s) {
		name := f.Tag.Get("yaml")
		if !rapid.Bool().Draw(t, "has "+name) {
			continue
		}
		switch p := reflect.ValueOf(s).Elem().FieldByIndex(f.Index).Addr().Interface().(type) {
		case *time.Duration:
			least := time.Duration(1)
			if name == "base,seconds" {
				least = 0
			}
			*p = anyDuration(least).Draw(t, name)
		case *float64:
			*p = rapid.OneOf(rapid.Float64Range(1, 4), rapid.Float64Range(1, math.MaxFloat64)).Draw(t, name)
		case *int:
			*p = rapid.OneOf(rapid.IntRange(0, 200), rapid.IntRange(0, math.MaxInt)).Draw(t, name)
		case *[]time.Duration:
			*p = rapid.SliceOfN(anyDuration(0), 1, 100).Draw(t, name)
		case *mapping.Names:
		default:
			t.Fatalf("%s is of no known type", name)
		}
	}
	p, err := retry.Policy(s)
	if err != nil {
		t.Fatalf("%+v: %v", s, err)
	}
	return s, p
}

// failures draws a number of failures up to n, often a small one.
func failures(t *rapid.T, n int) int {
	return rapid.OneOf(rapid.IntRange(1, min(n, 120)), rapid.IntRange(1, n)).Draw(t, "failures")
}

func TestWaitsAreBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, p := anyPolicy(t)
		limit := time.Duration(backlog.MaxWait)
		if d := field(s, "max_delay"); d.IsValid() {
			limit = min(limit, time.Duration(d.Int()))
		}
		n := failures(t, farOff-1)
		least, most := p.Wait(n)
		if least < 0 || most < least || most > limit {
			t.Fatalf("%v to %v after %d failures", least, most, n)
		}
		if !p.Planned && least != most {
			t.Fatalf("%v is not %v", least, most)
		}
		nextLeast, nextMost := p.Wait(n + 1)
		if p.Name != "list" && (nextLeast < least || nextMost < most) {
			t.Fatalf("after %d failures %v to %v, after one more %v to %v", n, least, most, nextLeast, nextMost)
		}
		random := rapid.Float64Range(0, longest).Draw(t, "random")
		if w := p.Draw(n, random); w < least || w > most {
			t.Fatalf("%v is not between %v and %v", w, least, most)
		}
		if farLeast, farMost := p.Wait(farOff); p.Draw(math.MaxInt, 0) != farLeast || p.Draw(math.MaxInt, random) > farMost {
			t.Fatal("it does not stay as it is")
		}
	})
}

// What the database is told about a counted policy is what the policy says
// about one record, to the nanosecond.
func TestWaitsAgreeWithDue(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	rapid.Check(t, func(t *rapid.T) {
		s, p := anyPolicy(t)
		if len(s.Keeps().Columns) != 2 {
			t.Skip("nothing to be told")
		}
		waits := p.Waits()
		if waits[0] != 0 || len(waits) > 102 {
			t.Fatalf("%d waits from %v on", len(waits), waits[0])
		}
		n := failures(t, math.MaxInt)
		_, ok := p.Rule().At(backlog.Failed, &backlog.Memory{Failures: n, LastFailure: now})
		if ok != (p.Retries < 0 || n <= p.Retries) || ok == p.GivenUp(n) {
			t.Fatalf("%d failures, %d retries: due %v, given up %v", n, p.Retries, ok, p.GivenUp(n))
		}
		if !ok {
			return
		}
		wait := waits[min(n, len(waits)-1)]
		edge := &backlog.Memory{Failures: n, LastFailure: now.Add(-wait)}
		if at, _ := p.Rule().At(backlog.Failed, edge); !at.Equal(now) {
			t.Fatalf("after %d failures and %v due at %v", n, wait, at)
		}
		if p.Draw(n, longest) != wait {
			t.Fatalf("after %d failures drawn is %v, not %v", n, p.Draw(n, longest), wait)
		}
	})
}

// A record that always fails when it is due, over its whole life.
func TestLifeOfARecord(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		_, p := anyPolicy(t)
		now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
		r := new(backlog.Memory)
		for n := 1; n <= 150; n++ {
			if n > 1 {
				at, ok := p.Rule().At(backlog.Failed, r)
				if !ok {
					t.Fatalf("given up before attempt %d, without having been told", n)
				}
				if at.After(now) {
					now = at
				}
			}
			random := func() float64 { return rapid.Float64Range(0, longest).Draw(t, "random") }
			next, givenUp := p.End(r, backlog.End{Outcome: backlog.Errored, At: now, Random: random})
			if next == nil && p.Never && givenUp {
				return // it keeps nothing
			}
			if next.Failures != n || !next.LastFailure.Equal(now) {
				t.Fatalf("attempt %d leaves %+v", n, next)
			}
			if givenUp != (p.Retries >= 0 && n == p.Retries+1) {
				t.Fatalf("attempt %d of 1+%d: given up %v", n, p.Retries, givenUp)
			}
			least, most := p.Wait(n)
			planned := p.Planned && !givenUp
			if planned == next.Next.IsZero() {
				t.Fatalf("attempt %d at %v plans %v, want a next one: %t", n, now, next.Next, planned)
			}
			if planned && (next.Next.Before(now.Add(least)) || next.Next.After(now.Add(most))) {
				t.Fatalf("attempt %d at %v plans %v, want it after %v to %v", n, now, next.Next, least, most)
			}
			if givenUp {
				return
			}
			r = next
			if now.Year() > 9000 { // where rows end, and times soon
				return
			}
		}
	})
}

// What is empty in a row is no reason to wait.
func TestDueOfTheEmpty(t *testing.T) {
	for _, name := range append(curveNames(), "progressive") {
		var p *backlog.Policy
		if name != "progressive" {
			p = mustNew(t, name, nil)
		}
		for _, r := range []backlog.Memory{{}, {Failures: -3}, {Failures: 2}} {
			if at, ok := p.Rule().At(backlog.Failed, &r); ok == (name == "none") || !at.IsZero() {
				t.Errorf("%s: %+v is due at %v, %v", name, r, at, ok)
			}
		}
	}
	p := mustNew(t, "fibonacci", nil)
	end := backlog.End{Outcome: backlog.Errored, At: time.Unix(1, 0)}
	if next, _ := p.End(&backlog.Memory{Failures: -3}, end); next.Failures != 1 {
		t.Errorf("a count below 0 becomes %d", next.Failures)
	}
}

// A seed fixes what is drawn, evenly over the whole range.
func TestJitter(t *testing.T) {
	p := mustNew(t, "exponential", map[string]any{"max_retries": 10})
	draw := func(seed uint64) []time.Duration {
		random := rand.New(rand.NewPCG(seed, 0))
		list := make([]time.Duration, 10_000)
		for i := range list {
			list[i] = p.Draw(10, random.Float64())
		}
		return list
	}
	one := draw(1)
	if !slices.Equal(one, draw(1)) {
		t.Error("the same seed draws other waits")
	}
	if slices.Equal(one, draw(2)) {
		t.Error("another seed draws the same waits")
	}
	tenths := make([]int, 10)
	for _, w := range one {
		if w < 17920*time.Second || w >= 35840*time.Second {
			t.Fatalf("%v is out of range", w)
		}
		tenths[(w-17920*time.Second)/(1792*time.Second)]++
	}
	for i, n := range tenths {
		if n < 850 || n > 1150 { // five standard deviations of 30
			t.Errorf("%d of 10,000 draws are in tenth %d: %v", n, i, tenths)
		}
	}
}

func BenchmarkWaitFarOff(b *testing.B) {
	for _, name := range curveNames() {
		p := mustNew(b, name, nil)
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				p.Wait(farOff)
			}
		})
	}
}
