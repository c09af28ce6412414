package cmd_test

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"backlog/backlog"
	"backlog/backlog/inspect"
	"backlog/backlog/mapping"
	"backlog/backlog/retry"
	"backlog/backlog/table"
	tabledb "backlog/backlog/table/db"
	"backlog/backlog/table/sqlite"
	"backlog/tiers"
)

// TestExplainAgreesWithPasses lets passes go over a table of whatever rows there
// may be, tick by tick, without changing one. Each is taken first when explain
// has said it would be, or never.
func TestExplainAgreesWithPasses(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ policy, null, zero, eligible, expires string }{
		{policy: "progressive"},
		{policy: "progressive", null: "oldest", zero: "newest", eligible: "skip"},
		{policy: "fibonacci", null: "newest", expires: "skip"},
		{policy: "list", zero: "oldest"},
		{policy: "exponential", null: "newest", zero: "oldest"},
		{policy: "none", zero: "newest"},
	} {
		t.Run(fmt.Sprintf("%v", tt), func(t *testing.T) {
			t.Parallel()
			var p *backlog.Policy
			if s := retry.New(tt.policy); s != nil {
				var err error
				if p, err = retry.Policy(s); err != nil {
					t.Fatal(err)
				}
			}
			m := mapping.Mapping{
				Name: "BACKLOG", ID: []string{"id"}, Status: "status",
				Inserted: mapping.Time{Column: "inserted", Null: tt.null, Zero: tt.zero},
				Eligible: &mapping.Time{Column: "eligible", Null: tt.eligible}, Expires: &mapping.Time{Column: "expires", Null: tt.expires, Zero: tt.expires},
				New: stateOf("NEW", "AGAIN"), Error: stateOf("ERROR"), Success: stateOf("SUCCESS"), Dead: stateOf("DEAD"),
			}
			if p != nil && !p.Never {
				m.Policy = &mapping.PolicyColumns{Count: "failures", Last: "last", Retries: p.Retries}
				if p.Planned {
					m.Policy.Next, m.Policy.InRetry = "next", "in_retry"
				} else {
					m.Policy.Waits = p.Waits()
				}
			}
			explainAll(t, m, p)
		})
	}
}

func stateOf(values ...string) (s mapping.State) {
	for _, v := range values {
		s.Values = append(s.Values, mapping.Value{Text: v})
	}
	return s
}

const (
	manyRows = 200            // in the table
	longest  = 12 * time.Hour // for which it is watched
)

func explainAll(t *testing.T, m mapping.Mapping, p *backlog.Policy) {
	ctx, now := context.Background(), time.Date(2026, 1, 5, 11, 51, 17, 0, time.UTC)
	tab, db := randomTable(t, m, now)
	schedule, err := tiers.New(tiers.Tier{MaxAge: 2 * time.Hour, Every: 10 * time.Minute}, tiers.Tier{MaxAge: 12 * time.Hour, Every: time.Hour},
		tiers.Tier{MaxAge: 36 * time.Hour, Cron: "20 3,17 * * *"})
	if err != nil {
		t.Fatal(err)
	}
	said := make(map[int64]inspect.Explanation)
	for i := range int64(manyRows) {
		row, ok, err := tab.Find(ctx, backlog.NewKey(i), now)
		if err != nil || !ok {
			t.Fatalf("row %d: %t, %v", i, ok, err)
		}
		said[i] = inspect.Explain(row, schedule, p, now)
		if !said[i].Next.Before(now.Add(longest)) {
			said[i] = inspect.Explanation{Reason: said[i].Reason}
		}
	}
	first := firstTries(t, tab, schedule, p, now)
	wrong := 0
	for id, x := range said {
		if got := first[id]; !got.Next.Equal(x.Next) || got.Tier != x.Tier {
			row, _ := query(db, fmt.Sprintf("SELECT status, quote(inserted), quote(eligible), quote(expires), failures, quote(last), quote(next) FROM BACKLOG WHERE id = %d", id))
			if wrong++; wrong < 10 {
				t.Errorf("tried at %v (%s), but it says %v (%s), %s: %s", got.Next, got.Tier, x.Next, x.Tier, x.Reason, row)
			}
		}
	}
	if len(first) < manyRows/20 {
		t.Errorf("just %d of %d rows were tried", len(first), manyRows)
	}
}

// firstTries returns when a pass has first taken each of the rows, and which.
func firstTries(t *testing.T, tab *table.Table, s *tiers.Schedule, p *backlog.Policy, now time.Time) map[int64]inspect.Explanation {
	t.Helper()
	first := make(map[int64]inspect.Explanation)
	for tick := s.Next(now); tick.Before(now.Add(longest)); tick = s.Next(tick) {
		tier := tiers.Coalesce(s.Due(tick.Add(-1), tick), func(tiers.Tier) bool { return true }).Start.Tier
		e := &backlog.Engine{
			Store: struct{ backlog.Store }{tab}, Policy: p, // which lets nothing expire
			Handler: backlog.HandlerFunc(func(_ context.Context, r *backlog.Record) error {
				if id := r.Key.Part(0).(int64); first[id].Next.IsZero() {
					first[id] = inspect.Explanation{Next: tick, Tier: tier.Name}
				}
				return backlog.Skip
			}),
		}
		pass := backlog.Pass{Tier: tier.Name, MaxAge: tier.MaxAge, Widest: tier.Name == s.Widest().Name, Now: tick}
		if _, err := e.Pass(context.Background(), pass); err != nil {
			t.Fatal(err)
		}
	}
	return first
}

// randomTable makes a table of random rows.
func randomTable(t *testing.T, m mapping.Mapping, now time.Time) (*table.Table, *sql.DB) {
	t.Helper()
	path := t.TempDir() + "/a.db"
	raw, err := openDB(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { raw.Close() })
	if _, err := raw.Exec(randomRows(now)); err != nil {
		t.Fatal(err)
	}
	db, err := tabledb.Open(context.Background(), sqlite.Dialect, "sqlite:"+path, tabledb.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	tab, err := table.New(context.Background(), db, m)
	if err != nil {
		t.Fatal(err)
	}
	if err := tab.ProveTimes(context.Background(), now); err != nil {
		t.Fatal(err)
	}
	return tab, raw
}

// randomRows is the SQL of a table of every kind of row, always the same.
func randomRows(now time.Time) string {
	random := rand.New(rand.NewPCG(1, 2))
	pick := func(list ...string) string { return list[random.IntN(len(list))] }
	at := func(from, to int, odd ...string) string { // in minutes
		if len(odd) > 0 && random.IntN(4) == 0 {
			return pick(odd...)
		}
		at := now.Truncate(5 * time.Minute).Add(time.Duration(from+random.IntN(to-from)) * time.Minute)
		return at.Add(time.Duration(random.IntN(3)-1) * time.Second).Format("'2006-01-02 15:04:05'")
	}
	var b strings.Builder
	b.WriteString("CREATE TABLE BACKLOG (id INTEGER PRIMARY KEY, status TEXT, inserted TEXT, eligible TEXT, expires TEXT, failures INTEGER, last TEXT, next TEXT, in_retry BOOLEAN);\n")
	for i := range manyRows {
		inserted := at(-3*60, 0)
		if random.IntN(2) == 0 {
			inserted = at(-40*60, 90, "NULL", "''", "'0000-00-00 00:00:00'")
		}
		eligible, expires := pick("NULL", "NULL", "''"), pick("NULL", "NULL", "''")
		if random.IntN(5) == 0 {
			eligible = at(-60, 30*60)
		}
		if random.IntN(5) == 0 {
			expires = at(-60, 30*60)
		}
		fmt.Fprintf(&b, "INSERT INTO BACKLOG VALUES (%d, %s, %s, %s, %s, %s, %s, %s, NULL);\n", i,
			pick("'NEW'", "'AGAIN'", "'ERROR'", "'ERROR'", "'ERROR'", "'ERROR'", "'SUCCESS'", "'DEAD'", "'HELD'", "NULL"), inserted, eligible, expires,
			pick("NULL", "-1", "0", "1", "2", "3", "4", "5", "6", "7", "8", "12", "1000000"), at(-5*60, 10, "NULL", "''"), at(-60, 20*60, "NULL", "''"))
	}
	return b.String()
}
