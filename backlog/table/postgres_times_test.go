package table_test

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"backlog/backlog"
	"backlog/backlog/inspect"
	"backlog/backlog/mapping"
	"backlog/backlog/table"
	"backlog/internal/testkit"
)

// postgresTimes are the ways in which columns of PostgreSQL hold times: the type,
// a time as a literal, the setting and the zone of the column, and how finely it
// tells times apart.
var postgresTimes = []struct {
	decl  string
	value func(time.Time) string
	as    string
	zone  string
	step  time.Duration
	whole bool // now is written in whole units
}{
	{"timestamptz", inText("2006-01-02 15:04:05.999999-07"), "", "", us, false},
	{"timestamptz(0)", inText("2006-01-02 15:04:05-07"), "", "", time.Second, false},
	{"timestamp", inTextOf("Europe/Berlin", "2006-01-02 15:04:05.999999"), "", "Europe/Berlin", us, false},
	{"timestamp(3)", inTextOf("America/New_York", "2006-01-02 15:04:05.999"), "", "America/New_York", ms, false},
	{"timestamp", inText("2006-01-02 15:04:05.999"), "", "", ms, false},
	{"date", inText("2006-01-02"), "", "", 24 * time.Hour, false},
	{"int", func(t time.Time) string { return fmt.Sprint(t.Unix()) }, "", "", time.Second, false},
	{"bigint", func(t time.Time) string { return fmt.Sprint(t.UnixMilli()) }, "", "", ms, false},
	{"bigint", func(t time.Time) string { return fmt.Sprint(t.UnixMicro()) }, "unix_us", "", us, false},
	{"numeric", secondsTo(3), "", "", ms, false},
	{"numeric", secondsTo(6), "unix_s", "", us, true},
	{"numeric(16,3)", secondsTo(3), "", "", ms, false},
	{"numeric(20)", func(t time.Time) string { return fmt.Sprint(t.UnixMilli()) }, "", "", ms, false},
	{"double precision", secondsTo(3), "", "", ms, false},
	{"double precision", secondsTo(6), "unix_s", "", us, true},
}

func inText(layout string) func(time.Time) string { return inTextOf("UTC", layout) }

func inTextOf(zone, layout string) func(time.Time) string {
	write := inZone(zone, layout)
	return func(t time.Time) string { return fmt.Sprintf("'%s'", write(t)) }
}

// secondsTo writes seconds with that many digits of a fraction.
func secondsTo(digits int) func(time.Time) string {
	return func(t time.Time) string {
		return fmt.Sprintf("%d.%06d", t.Unix(), t.Nanosecond()/1000)[:11+digits]
	}
}

// TestPostgresTimes: the cutoff is right to the step of the column, wherever the
// server thinks that it is, and on the days on which clocks are changed.
func TestPostgresTimes(t *testing.T) {
	cutoffs := []time.Time{
		time.Date(2026, 2, 10, 11, 0, 0, 123_000_000, time.UTC),
		time.Date(2026, 3, 8, 6, 59, 59, 999_000_000, time.UTC), // New York: the hour from 2 is left out
		time.Date(2026, 3, 8, 7, 0, 0, 0, time.UTC),
		time.Date(2026, 3, 29, 1, 0, 0, 0, time.UTC),  // Berlin: likewise
		time.Date(2026, 10, 25, 2, 0, 0, 0, time.UTC), // Berlin: the hour from 2 has been twice
		time.Date(2026, 11, 1, 7, 0, 0, 0, time.UTC),
	}
	for _, x := range postgresTimes {
		t.Run(fmt.Sprint(x.decl, " ", x.as, x.zone), func(t *testing.T) {
			t.Parallel()
			s := newPostgresSchema(t, "CREATE TABLE jobs (id int PRIMARY KEY, status text DEFAULT 'NEW', created "+x.decl+", after "+x.decl+", until "+x.decl+", written "+x.decl+")")
			m := jobs()
			m.Inserted.As = x.as
			m.Inserted.Zone = zoneNamed(x.zone)
			m.Zone = m.Inserted.Zone
			m.Eligible, m.Expires = &mapping.Time{Column: "after", As: x.as, Null: "newest"}, &mapping.Time{Column: "until", As: x.as, Null: "newest"}
			m.Touch = []mapping.Assignment{{Column: "written", Value: text("now")}}
			elsewhere := s.with(func(u *url.URL) {
				q := u.Query()
				q.Set("timezone", "Pacific/Apia")
				u.RawQuery = q.Encode()
			})
			db, err := openDB(context.Background(), elsewhere, table.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			for i, cutoff := range cutoffs {
				cutoff = cutoff.Truncate(x.step)
				now := cutoff.Add(14 * 24 * time.Hour)
				lit := func(t time.Time, steps int) string { return x.value(t.Add(time.Duration(steps) * x.step)) }
				rows := fmt.Sprintf("INSERT INTO jobs (id, created, after, until) VALUES (1, %s, NULL, NULL), (2, %s, NULL, NULL), (3, %s, NULL, NULL), (4, %s, %s, %s), (5, %[4]s, %[7]s, NULL), (6, %[4]s, NULL, %[8]s)",
					lit(cutoff, -1), lit(cutoff, 0), lit(cutoff, 1), lit(now, -1), lit(now, 0), lit(now, 0), lit(now, 1), lit(now, -1))
				s.exec("TRUNCATE jobs")
				if i > 0 { // else the first rows come later
					s.exec(rows)
				}
				store, err := table.New(context.Background(), db, m)
				if err == nil {
					err = store.Prove(context.Background(), now)
				}
				if err != nil {
					t.Fatal(err)
				}
				if i == 0 {
					s.exec(rows)
				}
				want := []string{"4", "3", "2"} // the newest first
				records, unreadable := readAll(t, store, backlog.Query{Limit: 10, Now: now, Since: cutoff})
				var got []string
				for i, r := range records {
					got = append(got, r.Key.String())
					if i > 0 && r.Inserted.After(records[i-1].Inserted) {
						t.Errorf("cutoff %v: %v comes after an older one", cutoff, r.Key)
					}
				}
				if !slices.Equal(got, want) || len(unreadable) > 0 {
					t.Errorf("cutoff %v: got %v, want %v; unreadable: %v", cutoff, got, want, unreadable)
				}
				if len(records) > 0 && !records[len(records)-1].Inserted.Equal(cutoff) {
					t.Errorf("cutoff %v: the oldest is understood as %v", cutoff, records[len(records)-1].Inserted)
				}
				c, err := store.Count(context.Background(), now, []time.Duration{now.Sub(cutoff)})
				if err != nil {
					t.Fatalf("cutoff %v: Count: %v", cutoff, err)
				}
				what := fmt.Sprintf("cutoff %v: counted as ", cutoff)
				testkit.Equal(t, what+"young", c.Bands[0].Fresh, 3)
				testkit.Equal(t, what+"waiting", c.Waiting, 1)
				testkit.Equal(t, what+"expired", c.Expired, 1)
				testkit.Equal(t, what+"old", c.Beyond.Fresh, 1)
				if left, err := store.Settle(context.Background(), []backlog.Settlement{{Record: &records[0], Target: backlog.RowSuccess, At: now}}); err != nil || len(left) > 0 {
					t.Fatalf("settled but for %v, %v", left, err)
				}
				sent := lit(now, 0)
				if x.whole {
					sent = x.value(now.Truncate(time.Second))
				}
				var right bool
				if err := s.plain.QueryRow(fmt.Sprintf("SELECT written = CAST(%s AS %s) FROM jobs WHERE id = 4", sent, x.decl)).Scan(&right); err != nil || !right {
					t.Errorf("cutoff %v: now is written otherwise: %v, %v", cutoff, right, err)
				}
			}
		})
	}
}

func zoneNamed(name string) *time.Location {
	l, err := time.LoadLocation(name)
	if err != nil {
		panic(err)
	}
	return l
}

// TestPostgresTimesInSmallIntegers: no bound is beyond what the column can hold,
// though a date that says when to begin may lie in any year.
func TestPostgresTimesInSmallIntegers(t *testing.T) {
	s := newPostgresSchema(t, "CREATE TABLE jobs (id int PRIMARY KEY, status text DEFAULT 'NEW', created int)",
		fmt.Sprintf("INSERT INTO jobs (id, created) VALUES (1, %d), (2, %d), (3, 2147483646)", noon.Unix()-60, noon.Unix()+7200))
	m := jobs()
	m.Eligible = &mapping.Time{Column: "created"}
	store, err := s.open(s.url, m)
	if err != nil {
		t.Fatal(err)
	}
	c, err := store.Count(context.Background(), noon, []time.Duration{time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	testkit.Equal(t, "counted as young", c.Bands[0].Fresh, 1)
	testkit.Equal(t, "counted as waiting", c.Waiting, 2)
	testkit.Equal(t, "counted as unreadable", c.Unreadable, 0)
	later := time.Date(2040, 1, 1, 0, 0, 0, 0, time.UTC)
	if records, unreadable := readAll(t, store, backlog.Query{Limit: 10, Now: later, Since: later.Add(-20 * 365 * 24 * time.Hour)}); len(records) != 3 || len(unreadable) > 0 {
		t.Errorf("in 2040: %v, %v", records, unreadable)
	}
}

// TestPostgresTimesWithoutEnd: a date of insertion that is infinite cannot be
// right. Its row is told of, and neither tried nor dead of old age.
func TestPostgresTimesWithoutEnd(t *testing.T) {
	for _, decl := range []string{"timestamptz", "timestamp", "date"} {
		s := newPostgresSchema(t, "CREATE TABLE jobs (id int PRIMARY KEY, status text DEFAULT 'NEW', created "+decl+", after "+decl+", until "+decl+")",
			"INSERT INTO jobs (id, created, after, until) VALUES (1, 'infinity', NULL, NULL), (2, '-infinity', NULL, NULL), (3, '2026-02-10', '-infinity', 'infinity'), (4, '2026-02-10', 'infinity', NULL), (5, '2026-02-10', NULL, '-infinity'), (6, '2026-02-10', NULL, NULL), (7, '2026-02-10', NULL, NULL)")
		m := jobs()
		m.Eligible, m.Expires = &mapping.Time{Column: "after", Null: "newest"}, &mapping.Time{Column: "until", Null: "newest"}
		m.Dead = is(text("DEAD"))
		store, err := s.open(s.url, m)
		if err != nil {
			t.Fatal(err)
		}
		records, unreadable := readAll(t, store, backlog.Query{Limit: 2})
		if keys := keysOf(records); keys != "7 6 3" || len(unreadable) != 1 || unreadable[0].Key.String() != "1" {
			t.Errorf("%s: got %s, unreadable: %v", decl, keys, unreadable)
		}
		c, err := store.Count(context.Background(), noon, []time.Duration{ages})
		if err != nil {
			t.Fatalf("%s: Count: %v", decl, err)
		}
		testkit.Equal(t, decl+": counted as young", c.Bands[0].Fresh, 3)
		testkit.Equal(t, decl+": counted as waiting", c.Waiting, 1)
		testkit.Equal(t, decl+": counted as expired", c.Expired, 1)
		testkit.Equal(t, decl+": counted as unreadable", c.Unreadable, 2)
		for _, r := range []string{"1", "2"} {
			k, err := store.ParseKey(r)
			if err != nil {
				t.Fatal(err)
			}
			if row, ok, err := store.Find(context.Background(), k, noon); err != nil || !ok || row.Unreadable == nil {
				t.Errorf("%s: row %s is explained as %+v, %v, %v", decl, r, row, ok, err)
			}
		}
		k, err := store.ParseKey("5")
		if err != nil {
			t.Fatal(err)
		}
		if row, _, err := store.Find(context.Background(), k, noon); err != nil || !strings.HasPrefix(row.Never(noon), "it expired at") {
			t.Errorf("%s: the row whose expiry is -infinity is explained as %+v, %v", decl, row, err)
		}
		if n, err := expire(t.Context(), store, noon, noon.Add(-ages)); n != 1 || err != nil {
			t.Errorf("%s: Expire: got %d, %v, want that row", decl, n, err)
		}
	}
}

// TestPostgresStartsWithoutEnd: under the policy refresh a row whose next start is infinity
// never starts, as one without, and -infinity is long past.
func TestPostgresStartsWithoutEnd(t *testing.T) {
	for _, decl := range []string{"timestamptz", "timestamp"} {
		s := newPostgresSchema(t, "CREATE TABLE jobs (id int PRIMARY KEY, refresh_at "+decl+", attempt_no int NOT NULL DEFAULT 0, deadline_at "+decl+", attempt_uid text)",
			"INSERT INTO jobs (id, refresh_at) VALUES (1, '2026-02-10'), (2, 'infinity'), (3, '-infinity'), (4, NULL), (5, 'infinity')")
		m := refreshMapping()
		m.Name = "jobs"
		store, err := s.open(s.url, m)
		if err != nil {
			t.Fatal(err)
		}
		records, unreadable := readAll(t, store, backlog.Query{Limit: 2})
		if keys := keysOf(records); keys != "3 1" || len(unreadable) > 0 {
			t.Errorf("%s: got %s, unreadable: %v", decl, keys, unreadable)
		}
		counts, err := store.CountAttempts(t.Context())
		if err != nil || counts["waiting"] != 2 || counts["finished"] != 3 {
			t.Errorf("%s: counted %v, %v", decl, counts, err)
		}
		for _, state := range []string{"waiting", "finished"} {
			list, err := store.List(t.Context(), table.Filter{State: state}, noon, backlog.Cursor{}, 10)
			if err != nil || len(list.Rows) != counts[state] {
				t.Errorf("%s: %d rows are listed as %s, %v", decl, len(list.Rows), state, err)
			}
			for _, r := range list.Rows {
				if got := inspect.State(r.Memory); got != state {
					t.Errorf("%s: row %v is %s, listed as %s", decl, r.Key, got, state)
				}
			}
		}
	}
}

func keysOf(records []backlog.Record) string {
	var list []string
	for _, r := range records {
		list = append(list, r.Key.String())
	}
	return strings.Join(list, " ")
}
