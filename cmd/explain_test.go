package cmd_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

// TestExplainIsExact works a record off that never succeeds, on the word of
// explain alone: just before the tick that it names no pass takes the record,
// and at it one does.
func TestExplainIsExact(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, policy string
		inserted     string
		from         time.Duration // after that
		attempts     int           // at most
		last         string        // the reason for which there are no more, "" if there are
	}{
		{"progressive", "progressive", "2026-01-05 11:51:17", 0, 6, ""},
		{"into a wider tier", "progressive", "2026-01-05 11:51:17", 23*time.Hour + 53*time.Minute, 6, ""},
		{"out of the widest tier", "progressive", "2026-01-05 11:51:17", 7*24*time.Hour - 25*time.Minute, 3, "before a tick comes it is older than every tier reaches (7d)"},
		{"counted", "fibonacci", "2026-01-05 11:51:17", 0, 8, ""},
		{"counted, with milliseconds", "{arctan: {max: 20m}}", "2026-01-05 11:51:17.250", 0, 8, ""},
		{"counted, until it is given up", "{list: [0, 30s, 7m]}", "2026-01-05 11:51:17", 0, 4, "it has failed 4 times and is out of retries, of which list allows 3; `backlog retry` makes it new"},
		{"planned", "{exponential: {max_retries: 9}}", "2026-01-05 11:51:17.250", 0, 8, ""},
		{"planned, until it is given up", "linear", "2026-01-05 11:51:17", 0, 4, "it has failed 4 times and is out of retries, of which linear allows 3; `backlog retry` makes it new"},
		{"never tried again", "none", "2026-01-05 11:51:17", 0, 1, "it has failed, and the policy none never tries again; `backlog retry` makes it new"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := newShop(t, map[string]string{
				"schedule.yaml": "policy: " + tt.policy + "\nhandler: {exec: ['false']}\nstate: none\n" +
					"tiers: [{max_age: 1d, every: 2m}, {max_age: 7d, every: 10m}]\n",
			})
			s.mustRun("init", "--create-table")
			s.sql("INSERT INTO BACKLOG (id, status, date_inserted) VALUES (1, 'NEW', '" + tt.inserted + "')")
			inserted, err := time.Parse("2006-01-02 15:04:05.999", tt.inserted)
			if err != nil {
				t.Fatal(err)
			}
			now, attempts := inserted.Add(tt.from), 0
			for ; attempts < tt.attempts; attempts++ {
				x := s.explain(now)
				if x.Next == nil {
					t.Fatalf("after %d attempts it says at %v: %s", attempts, now, x.Reason)
				}
				if n := s.onceDue(x.Next.Add(-time.Millisecond)); n != 0 {
					t.Fatalf("attempt %d: tried before %v", attempts+1, x.Next)
				}
				if n := s.onceDue(*x.Next); n != 1 {
					t.Fatalf("attempt %d: not tried at %v", attempts+1, x.Next)
				}
				now = x.Next.Add(time.Millisecond)
			}
			x := s.explain(now)
			if (x.Next == nil) != (tt.last != "") || !strings.Contains(x.Reason, tt.last) {
				t.Errorf("after %d attempts it says at %v: %v, %s", attempts, now, x.Next, x.Reason)
			}
			for tick := now.Truncate(10 * time.Minute); x.Next == nil && tick.Before(now.Add(40*time.Minute)); tick = tick.Add(2 * time.Minute) {
				if tick.After(now) && s.onceDue(tick) != 0 {
					t.Errorf("tried at %v", tick)
				}
			}
		})
	}
}

// explanation is what the test reads of explain's answer.
type explanation struct {
	Due    bool
	Reason string
	Next   *time.Time
	Tier   *string
}

func (s *shop) explain(now time.Time) (x explanation) {
	s.t.Helper()
	s.answer(&x, "explain", "1", "--json", "--now", now.Format(time.RFC3339Nano))
	return x
}

// onceDue returns how many records the pass takes that is due.
func (s *shop) onceDue(now time.Time) int {
	s.t.Helper()
	var r struct{ Selected int }
	s.answer(&r, "once", "--due", "--json", "--now", now.Format(time.RFC3339Nano))
	return r.Selected
}

func (s *shop) answer(to any, args ...string) {
	s.t.Helper()
	if err := json.Unmarshal([]byte(s.mustRun(args...)), to); err != nil {
		s.t.Fatal(err)
	}
}
