package table_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"backlog/backlog"
	"backlog/backlog/mapping"
	"backlog/internal/testkit"
)

// mysqlWrittens are the ways in which tables hold times; the form is what is said
// of the column.
var mysqlWrittens = []struct {
	written
	form string
}{
	{written{"", "DATETIME", "", "", inLayout("2006-01-02 15:04:05"), time.Second, "'2026-02-10 12:00:01'"}, "datetime 2026-01-02 15:04:05 (no zone, read as UTC)"},
	{written{"", "DATETIME(1)", "", "", inLayout("2006-01-02 15:04:05.0"), 100 * ms, "'2026-02-10 12:00:01.9'"}, "datetime(1) 2026-01-02 15:04:05.0 (no zone, read as UTC)"},
	{written{"", "DATETIME(2)", "", "", inLayout("2006-01-02 15:04:05.00"), 10 * ms, "'2026-02-10 12:00:01.98'"}, "datetime(2) 2026-01-02 15:04:05.00 (no zone, read as UTC)"},
	{written{"", "DATETIME(3)", "", "", inLayout("2006-01-02 15:04:05.000"), ms, "'2026-02-10 12:00:01.987'"}, "datetime(3) 2026-01-02 15:04:05.000 (no zone, read as UTC)"},
	{written{"", "DATETIME(4)", "", "", inLayout("2006-01-02 15:04:05.0000"), 100 * us, "'2026-02-10 12:00:01.9876'"}, "datetime(4) 2026-01-02 15:04:05.0000 (no zone, read as UTC)"},
	{written{"", "DATETIME(5)", "", "", inLayout("2006-01-02 15:04:05.00000"), 10 * us, "'2026-02-10 12:00:01.98765'"}, "datetime(5) 2026-01-02 15:04:05.00000 (no zone, read as UTC)"},
	{written{"", "DATETIME(6)", "", "", inLayout("2006-01-02 15:04:05.000000"), us, "'2026-02-10 12:00:01.987654'"}, "datetime(6) 2026-01-02 15:04:05.000000 (no zone, read as UTC)"},
	{written{"", "DATETIME(3)", "Europe/Berlin", "", inZone("Europe/Berlin", "2006-01-02 15:04:05.000"), ms, "'2026-02-10 13:00:01.987'"}, "datetime(3) 2026-01-02 15:04:05.000 (no zone, read as Europe/Berlin)"},
	// What has no zone of its own is written by a session in Kolkata.
	{written{"", "TIMESTAMP", "Europe/Berlin", "", inZone("Asia/Kolkata", "2006-01-02 15:04:05"), time.Second, "'2026-02-10 17:30:01'"}, "timestamp 2026-01-02 15:04:05 (a moment, read as UTC)"},
	{written{"", "TIMESTAMP(3)", "", "", inZone("Asia/Kolkata", "2006-01-02 15:04:05.000"), ms, "'2026-02-10 17:30:01.987'"}, "timestamp(3) 2026-01-02 15:04:05.000 (a moment, read as UTC)"},
	{written{"", "DATE", "", "", inLayout("2006-01-02"), 24 * time.Hour, "'2026-02-10'"}, "date 2026-01-02 (no zone, read as UTC)"},
	{written{"", "INT", "", "", func(t time.Time) any { return t.Unix() }, time.Second, "1770724801"}, "unix_s"},
	{written{"", "INT UNSIGNED", "", "", func(t time.Time) any { return t.Unix() }, time.Second, "1770724801"}, "unix_s"},
	{written{"", "BIGINT", "", "", func(t time.Time) any { return t.UnixMilli() }, ms, "1770724801987"}, "unix_ms"},
	{written{"", "BIGINT UNSIGNED", "", "unix_us", func(t time.Time) any { return t.UnixMicro() }, us, "1770724801987654"}, "unix_us"},
	{written{"", "DOUBLE", "", "", func(t time.Time) any { return float64(t.UnixMicro()) / 1e6 }, us, "1770724801.987654"}, "unix_s"},
	{written{"", "VARCHAR(40)", "", "", inLayout("2006-01-02T15:04:05.000Z"), ms, "'2026-02-10T12:00:01.987Z'"}, "text 2026-01-02T15:04:05.000Z"},
}

// TestMySQLTimes: for every type, what the cutoff of a page, of a count and of
// expiry includes, to the column's precision, and what now is written as, where
// others work in sessions of another zone.
func TestMySQLTimes(t *testing.T) {
	for _, w := range mysqlWrittens {
		t.Run(w.decl+w.zone, func(t *testing.T) {
			plain, rawURL := newMySQL(t)
			defer plain.Close()
			plain.SetMaxOpenConns(1)
			execMySQL(t, plain, "SET time_zone = '+05:30'")
			execMySQL(t, plain, fmt.Sprintf("CREATE TABLE BACKLOG (id INT PRIMARY KEY, status VARCHAR(20), date_inserted %s NULL, touched %s NULL, wanted %s NULL, INDEX i (status, date_inserted))", w.decl, w.decl, w.decl))
			maxAge := max(time.Hour, w.step*36/24)
			cutoff := noon.Add(-maxAge)
			for id, at := range map[int]time.Time{1: cutoff.Add(-w.step), 2: cutoff, 3: cutoff.Add(w.step), 4: cutoff.Add(-40 * day)} {
				execMySQL(t, plain, "INSERT INTO BACKLOG VALUES (?, 'NEW', ?, NULL, "+w.now+")", id, w.value(at))
			}
			m := plainMapping()
			m.Inserted.As, m.Dead = w.as, is(text("DEAD"))
			if w.zone != "" {
				m.Zone = testkit.Zone(t, w.zone)
			}
			m.Touch = []mapping.Assignment{set("touched", text("now"))}
			_, s := mysqlStore(t, rawURL, m)
			if want := "date_inserted: " + w.form; !slices.Contains(s.TimeForms(), want) {
				t.Errorf("the forms are %q, want %q", s.TimeForms(), want)
			}
			for _, limit := range []int{1, 100} {
				records, _ := readAll(t, s, backlog.Query{Since: noon.Add(-maxAge), Limit: limit})
				wantKeys(t, fmt.Sprintf("one step too old, at the cutoff, one step younger, in pages of %d", limit), records, "3 2")
				records, _ = readAll(t, s, backlog.Query{Now: noon.Add(w.step / 2), Since: noon.Add(w.step/2 - maxAge), Limit: limit})
				wantKeys(t, "with a clock half a step later", records, "3")
			}
			c, err := s.Count(t.Context(), noon, []time.Duration{maxAge})
			if err != nil {
				t.Fatalf("Count: %v", err)
			}
			testkit.Equal(t, "counted as young", c.Bands[0].Fresh, 2)
			testkit.Equal(t, "the oldest of them", time.Time(c.Bands[0].Oldest), cutoff)
			testkit.Equal(t, "counted as old", c.Beyond.Fresh, 2)
			testkit.Equal(t, "counted as unreadable", c.Unreadable, 0)
			if n, err := expire(t.Context(), s, noon, cutoff); n != 2 || err != nil {
				t.Errorf("Expire: got %d, %v, want 2", n, err)
			}
			r := lane(t, s, backlog.Fresh)[0]
			left, err := s.Settle(t.Context(), []backlog.Settlement{{Record: &r, Target: backlog.RowSuccess, At: noon.Add(1987654321)}})
			if err != nil || len(left) > 0 {
				t.Fatal(left, err)
			}
			var as, ids string
			err = plain.QueryRow("SELECT group_concat(touched = wanted), group_concat(id) FROM BACKLOG WHERE status = 'SUCCESS'").Scan(&as, &ids)
			if err != nil || as != "1" || ids != "3" {
				t.Errorf("now was written in %s, as wanted: %s, %v", ids, as, err)
			}
		})
	}
}

// TestMySQLClockChanges: around the hours in which a zone's clock is changed a
// pass takes exactly the rows that are not too old. Of a time that the clock
// shows twice only a TIMESTAMP can tell which of the two it is; others are taken
// for the later one.
func TestMySQLClockChanges(t *testing.T) {
	const quarter = 15 * time.Minute
	berlin := testkit.Zone(t, "Europe/Berlin")
	for _, x := range []struct {
		decl   string
		moment bool
	}{{"DATETIME(3)", false}, {"TIMESTAMP(3)", true}} {
		plain, rawURL := newMySQL(t)
		defer plain.Close()
		execMySQL(t, plain, "CREATE TABLE BACKLOG (id INT PRIMARY KEY, status VARCHAR(20), date_inserted "+x.decl+" NULL, INDEX i (status, date_inserted))")
		var at []time.Time // that the rows are read as
		for _, change := range []time.Time{time.Date(2025, 3, 30, 1, 0, 0, 0, time.UTC), time.Date(2025, 10, 26, 1, 0, 0, 0, time.UTC)} {
			for i := -8; i < 8; i++ {
				inserted := change.Add(time.Duration(i)*quarter + ms)
				written := inserted.UTC()
				if !x.moment {
					written = inserted.In(berlin)
				}
				execMySQL(t, plain, "INSERT INTO BACKLOG VALUES (?, 'NEW', ?)", len(at), written.Format("2006-01-02 15:04:05.000"))
				if later := inserted.Add(time.Hour); !x.moment && later.In(berlin).Format("15:04") == inserted.In(berlin).Format("15:04") {
					inserted = later
				}
				at = append(at, inserted)
			}
		}
		m := plainMapping()
		m.Zone = berlin
		_, s := mysqlStore(t, rawURL, m)
		for _, cutoff := range at {
			for _, step := range []time.Duration{-ms, 0, ms} {
				want := 0
				for _, a := range at {
					if !a.Before(cutoff.Add(step)) {
						want++
					}
				}
				q := backlog.Query{Now: noon, Since: cutoff.Add(step), Limit: 100}
				records, unreadable := readAll(t, s, q)
				if len(records) != want || len(unreadable) > 0 {
					t.Errorf("%s: from %v on there are %d records, want %d, and %v", x.decl, cutoff.Add(step), len(records), want, unreadable)
				}
				for _, r := range records {
					if i := r.Key.Part(0).(int64); !r.Inserted.Equal(at[i]) {
						t.Fatalf("%s: row %d was inserted at %v, want %v", x.decl, i, r.Inserted, at[i])
					}
				}
			}
		}
	}
}
