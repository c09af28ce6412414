package table_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"backlog/backlog"
	"backlog/backlog/mapping"
	"backlog/backlog/table/doctor"
	"backlog/internal/testkit"
)

// A written is a way in which programs write times.
type written struct {
	name, decl string
	zone       string // of the mapping; empty: UTC
	as         string
	value      func(time.Time) any
	step       time.Duration // precision of the values
	now        string        // how 2026-02-10 12:00:01.987654321 UTC is written, in SQL
}

func inLayout(layout string) func(time.Time) any {
	return func(t time.Time) any { return t.UTC().Format(layout) }
}

func inZone(zone, layout string) func(time.Time) any {
	l, err := time.LoadLocation(zone)
	if err != nil {
		panic(err)
	}
	return func(t time.Time) any { return t.In(l).Format(layout) }
}

func number(layout string) func(time.Time) any {
	return func(t time.Time) any {
		n, err := strconv.ParseInt(t.UTC().Format(layout), 10, 64)
		if err != nil {
			panic(err)
		}
		return n
	}
}

func julianDay(t time.Time) any { return float64(t.UnixMilli())/86_400_000 + 2440587.5 }

const ms, us = time.Millisecond, time.Microsecond

// writtens are the forms that tables in the wild have.
var writtens = []written{
	{"space", "TEXT", "", "", inLayout("2006-01-02 15:04:05"), time.Second, "'2026-02-10 12:00:01'"},
	{"space in a DATETIME", "DATETIME", "", "", inLayout("2006-01-02 15:04:05"), time.Second, "'2026-02-10 12:00:01'"},
	{"T", "TEXT", "", "", inLayout("2006-01-02T15:04:05"), time.Second, "'2026-02-10T12:00:01'"},
	{"T and Z", "TIMESTAMP", "", "", inLayout("2006-01-02T15:04:05Z"), time.Second, "'2026-02-10T12:00:01Z'"},
	{"T, milliseconds and Z, as JavaScript does", "TEXT", "", "", inLayout("2006-01-02T15:04:05.000Z"), ms, "'2026-02-10T12:00:01.987Z'"},
	{"microseconds, as Python does", "DATETIME", "", "", inLayout("2006-01-02 15:04:05.000000"), us, "'2026-02-10 12:00:01.987654'"},
	{"a fraction unless it is zero, as Django does", "DATETIME", "", "", inLayout("2006-01-02 15:04:05.999999"), us, "'2026-02-10 12:00:01.987654'"},
	{"an offset of zero", "TEXT", "", "", inLayout("2006-01-02 15:04:05+00:00"), time.Second, "'2026-02-10 12:00:01+00:00'"},
	{"a fraction and an offset, as a Go driver does", "DATETIME", "", "", inLayout("2006-01-02 15:04:05.000000000+00:00"), time.Nanosecond, "'2026-02-10 12:00:01.987654321+00:00'"},
	{"another offset", "TEXT", "", "", inZone("Asia/Kolkata", "2006-01-02T15:04:05-07:00"), time.Second, "'2026-02-10T17:30:01+05:30'"},
	{"the zone of the mapping", "TEXT", "Europe/Berlin", "", inZone("Europe/Berlin", "2006-01-02 15:04:05.000"), ms, "'2026-02-10 13:00:01.987'"},
	{"minutes", "TEXT", "", "", inLayout("2006-01-02 15:04"), time.Minute, "'2026-02-10 12:00'"},
	{"days", "DATE", "", "", inLayout("2006-01-02"), 24 * time.Hour, "'2026-02-10'"},
	{"14 digits", "TEXT", "", "", inLayout("20060102150405"), time.Second, "'20260210120001'"},
	{"14 digits as a number", "INTEGER", "", "", number("20060102150405"), time.Second, "20260210120001"},
	{"seconds", "INTEGER", "", "", func(t time.Time) any { return t.Unix() }, time.Second, "1770724801"},
	{"seconds with a fraction", "REAL", "", "", func(t time.Time) any { return float64(t.UnixMicro()) / 1e6 }, us, "1770724801.987654"},
	{"milliseconds", "BIGINT", "", "", func(t time.Time) any { return t.UnixMilli() }, ms, "1770724801987"},
	{"microseconds", "INT", "", "", func(t time.Time) any { return t.UnixMicro() }, us, "1770724801987654"},
	{"Julian days", "REAL", "", "", julianDay, ms, "julianday('2026-02-10 12:00:01.987')"},
	{"as: unix_ms", "INTEGER", "", "unix_ms", func(t time.Time) any { return t.UnixMilli() }, ms, "1770724801987"},
	{"as: a layout of its own", "TEXT", "", "text:2006/01/02 15.04.05", inLayout("2006/01/02 15.04.05"), time.Second, "'2026/02/10 12.00.01'"},
	{"as: a day only", "TEXT", "", "text:20060102", inLayout("20060102"), 24 * time.Hour, "'20260210'"},
}

// file returns a table with rows of the given ids and times, and a mapping
// for it that touches a column of the same form.
func (w written) file(t *testing.T, times map[int]time.Time) (*file, mapping.Mapping) {
	f := newFile(t, fmt.Sprintf("CREATE TABLE BACKLOG (id INTEGER PRIMARY KEY, status TEXT, date_inserted %s, touched %s)", w.decl, w.decl))
	for id, at := range times {
		f.exec("INSERT INTO BACKLOG VALUES (?, 'NEW', ?, NULL)", id, w.value(at))
	}
	m := plainMapping()
	m.Inserted.As, m.Dead = w.as, is(text("DEAD"))
	if w.zone != "" {
		var err error
		if m.Zone, err = time.LoadLocation(w.zone); err != nil {
			t.Fatal(err)
		}
	}
	m.Touch = []mapping.Assignment{set("touched", text("now"))}
	return f, m
}

// TestTimesEndToEnd: for every form, what the cutoff of a page, of a count and
// of expiry includes, to the column's precision, and what now is written as.
func TestTimesEndToEnd(t *testing.T) {
	ctx := context.Background()
	for _, w := range writtens {
		t.Run(w.name, func(t *testing.T) {
			maxAge := max(time.Hour, w.step*36/24)
			cutoff := noon.Add(-maxAge)
			f, m := w.file(t, map[int]time.Time{1: cutoff.Add(-w.step), 2: cutoff, 3: cutoff.Add(w.step), 4: cutoff.Add(-40 * day)})
			s := f.store(m)
			for _, limit := range []int{1, 2, 100} {
				records, _ := readAll(t, s, backlog.Query{Since: noon.Add(-maxAge), Limit: limit})
				wantKeys(t, fmt.Sprintf("one step too old, at the cutoff, one step younger, in pages of %d", limit), records, "3 2")
				for _, r := range records {
					if want := cutoff.Add(w.step * time.Duration(r.Key.Part(0).(int64)-2)); !r.Inserted.Equal(want) {
						t.Errorf("row %v was inserted at %v, want %v", r.Key, r.Inserted, want)
					}
				}
				if w.step > 1 {
					records, _ = readAll(t, s, backlog.Query{Now: noon.Add(w.step / 2), Since: noon.Add(w.step/2 - maxAge), Limit: limit})
					wantKeys(t, "with a clock half a step later", records, "3")
				}
			}
			c, err := s.Count(ctx, noon, []time.Duration{maxAge})
			if err != nil {
				t.Fatalf("Count: %v", err)
			}
			testkit.Equal(t, "counted as young", c.Bands[0].Fresh, 2)
			testkit.Equal(t, "the oldest of them", time.Time(c.Bands[0].Oldest), cutoff)
			testkit.Equal(t, "counted as old", c.Beyond.Fresh, 2)
			testkit.Equal(t, "counted as unreadable", c.Unreadable, 0)
			if n, err := expire(ctx, s, noon, cutoff); n != 2 || err != nil {
				t.Errorf("Expire: got %d, %v, want 2", n, err)
			}
			f.wantRows("SELECT id FROM BACKLOG WHERE status = 'DEAD' ORDER BY id", "1", "4")

			r := lane(t, s, backlog.Fresh)[0]
			left, err := s.Settle(ctx, []backlog.Settlement{{Record: &r, Target: backlog.RowSuccess, At: noon.Add(1987654321)}})
			if err != nil || len(left) > 0 {
				t.Fatal(left, err)
			}
			if got, want := f.rows("SELECT touched FROM BACKLOG WHERE id = 3")[0], f.rows("SELECT " + w.now)[0]; got != want {
				t.Errorf("now was written as %s, want %s", got, want)
			}
		})
	}
}

// TestTimesOfLaterRows: in a table that is empty at the start the form is
// found out when there are rows, whoever asks first.
func TestTimesOfLaterRows(t *testing.T) {
	ctx := context.Background()
	for i, w := range writtens {
		first := []string{"Pending", "Count", "Expire"}[i%3]
		t.Run(w.name+", "+first+" first", func(t *testing.T) {
			f, m := w.file(t, nil)
			m.Expires, m.Eligible = &mapping.Time{Column: "touched", As: w.as}, &mapping.Time{Column: "eligible", As: w.as}
			m.Touch = nil
			f.exec("ALTER TABLE BACKLOG ADD eligible " + w.decl)
			s := f.store(m)
			wantKeys(t, "an empty table", lane(t, s, backlog.Fresh), "")
			for id, times := range [][3]any{ // inserted, expires, eligible
				{w.value(noon.Add(-3 * day)), nil, nil},
				{w.value(noon.Add(-4 * day)), w.value(noon.Add(-2 * day)), nil},
				{w.value(noon.Add(-4 * day)), w.value(noon.Add(2 * day)), w.value(noon.Add(-2 * day))},
				{w.value(noon.Add(-5 * day)), nil, w.value(noon.Add(2 * day))},
				{w.value(noon.Add(-99 * day)), nil, nil},
			} {
				f.exec("INSERT INTO BACKLOG (id, status, date_inserted, touched, eligible) VALUES (?, 'NEW', ?, ?, ?)", id, times[0], times[1], times[2])
			}
			switch first {
			case "Pending":
				wantKeys(t, "fresh lane", lane(t, s, backlog.Fresh), "0 2 4")
			case "Count":
				c, err := s.Count(ctx, noon, []time.Duration{10 * day})
				if err != nil {
					t.Fatalf("Count: %v", err)
				}
				testkit.Equal(t, "counted as young", c.Bands[0].Fresh, 2)
				testkit.Equal(t, "counted as waiting", c.Waiting, 1)
				testkit.Equal(t, "counted as expired", c.Expired, 1)
				testkit.Equal(t, "counted as old", c.Beyond.Fresh, 1)
			}
			if n, err := expire(ctx, s, noon, noon.Add(-10*day)); n != 2 || err != nil {
				t.Errorf("Expire: got %d, %v, want the row that is old and the one past its own time", n, err)
			}
			wantKeys(t, "after Expire", lane(t, s, backlog.Fresh), "0 2")
			if forms := strings.Join(s.TimeForms(), "\n"); strings.Contains(forms, "not known yet") {
				t.Errorf("TimeForms: got %s", forms)
			}
		})
	}
}

func TestTimesThatCannotBeRead(t *testing.T) {
	const unknown = " is no time in a known form: numbers are taken for times of the years 1990 to 2100, in seconds, milliseconds or microseconds; " +
		"`as: text:<layout>` describes texts that begin with the year, such as 2006/01/02 15:04 or 20060102; others do not sort by time, and need a generated column that does"
	const cure = "; say which it is with table.inserted: {column: date_inserted, as: …}, or mend the rows"
	for _, x := range []struct {
		values string // a row each
		as     string
		want   string
	}{
		{
			values: "('2026-02-10 01:00:00'), ('2026-02-10T02:00:00'), ('20260210010000')",
			want:   "column date_inserted: mixed: 2026-02-10 01:00:00 and \"20260210010000\"" + cure,
		},
		{values: "('2026-02-10 01:00:00'), (1770724801)", want: "column date_inserted: mixed: 2026-02-10 01:00:00 and 1770724801" + cure},
		{values: "(1770724801), (1770724801000)", want: "column date_inserted: mixed: 1770724801 and 1770724801000" + cure},
		{
			values: "('2026-02-10 01:00:00+01:00'), ('2026-02-10 02:00:00+02:00')",
			want:   "column date_inserted: mixed zones: 2026-02-10 01:00:00+01:00 and 2026-02-10 02:00:00+02:00: the order of such texts is not the order of time" + cure,
		},
		{
			values: "('2026-02-10 01:00:00'), ('2026-02-10 02:00:00+01:00')",
			want:   "column date_inserted: mixed: 2026-02-10 01:00:00 and 2026-02-10 02:00:00+01:00" + cure,
		},
		{
			values: "('2026-02-10 01:00:00'), ('2026-02-10 02:00:00'), ('soon')",
			want:   "column date_inserted: mixed: 2026-02-10 01:00:00 and \"soon\"" + cure,
		},
		{values: "('10.02.2026')", want: `column date_inserted: "10.02.2026"` + unknown + cure},
		{values: "('yesterday'), ('today')", want: `column date_inserted: "yesterday"` + unknown + cure},
		{values: "('2026/02/10 01:00:00')", want: "column date_inserted: 2026/02/10 01:00:00" + unknown + cure},
		{
			values: "('2026-02-10 15:00:00')",
			as:     "text:2006-01-02 15:04:05",
			want: "1 of 1 rows looked at have no date that can be right: column date_inserted: 2026-02-10 15:00:00 read as text 2026-01-02 15:04:05 (no zone, read as UTC) is 3 h ahead of the clock: " +
				"is it written in another zone than UTC?; say with table.inserted: {column: date_inserted, as: …, zone: …} how it is to be read",
		},
		{values: "(12345)", want: "column date_inserted: 12345" + unknown + cure},
		{
			values: "('2026-02-10 01:00:00')",
			as:     "unix_ms",
			want:   "column date_inserted is not as configured: 2026-02-10 01:00:00 is not unix_ms; mend `as:`",
		},
		{
			values: "('2026-02-10 01:00:00')",
			as:     "text:2006-01-02T15:04:05",
			want:   "column date_inserted is not as configured: 2026-02-10 01:00:00 is not text 2026-01-02T15:04:05 (no zone, read as UTC); mend `as:`",
		},
		{
			values: "(1770724801000), (1770724802000)",
			as:     "unix_s",
			want:   "column date_inserted is not as configured: 1770724801000 read as unix_s lies in the year 58082: is that how it is to be read?; mend `as:`",
		},
		{
			values: "(1770724801), (1770724802)",
			as:     "unix_ms",
			want:   "column date_inserted is not as configured: 1770724801 read as unix_ms lies in the year 1970: is that how it is to be read?; mend `as:`",
		},
		{
			values: "('2026-02-10 15:00:00'), ('2026-02-10 15:30:00'), ('2026-02-10 11:00:00')",
			want: "2 of 3 rows looked at have no date that can be right: column date_inserted: 2026-02-10 15:00:00 read as text 2026-01-02 15:04:05 (no zone, read as UTC) is 3 h ahead of the clock: " +
				"is it written in another zone than UTC?; say with table.inserted: {column: date_inserted, as: …, zone: …} how it is to be read",
		},
	} {
		f := newFile(t, "CREATE TABLE BACKLOG (id INTEGER PRIMARY KEY, date_inserted, status TEXT DEFAULT 'NEW'); INSERT INTO BACKLOG (date_inserted) VALUES "+x.values)
		m := plainMapping()
		m.Inserted.As = x.as
		f.wantRefused(m, "table BACKLOG: "+x.want)
	}
}

// TestTimesOfRowsThatCannotBeRecords: such rows are reported, whatever the
// pages, and hide no other.
func TestTimesOfRowsThatCannotBeRecords(t *testing.T) {
	for _, x := range []struct {
		name, decl string
		bad        []any // ids 11, 12, …
		good       func(time.Time) any
		want       []string // how the errors begin
		noBand     int      // how many of them a comparison can tell
	}{
		{
			name: "text",
			decl: "TEXT",
			bad:  []any{"garbage", "3000-01-01 00:00:00", "2026-02-10 15:00:00", "2026-02-10 11:00:00.x", "2026-02-30 11:00:00"},
			good: inLayout("2006-01-02 15:04:05"),
			want: []string{`column date_inserted: "garbage" is not text 2026-01-02 15:04:05 (no zone, read as UTC)`, "column date_inserted: 3000-01-01 00:00:00 read as text 2026-01-02 15:04:05 (no zone, read as UTC) lies in the year 3000",
				"column date_inserted: 2026-02-10 15:00:00 read as text 2026-01-02 15:04:05 (no zone, read as UTC) is 3 h ahead of the clock: is it written in another zone than UTC?",
				"column date_inserted: 2026-02-10 11:00:00.x is not text", "column date_inserted: 2026-02-30 11:00:00 is not text"},
			noBand: 4,
		},
		{
			name: "milliseconds",
			decl: "INTEGER",
			bad:  []any{"garbage", int64(32503680000000), noon.Add(3 * time.Hour).UnixMilli(), []byte{0xff}, 1e18},
			good: func(t time.Time) any { return t.UnixMilli() },
			want: []string{`column date_inserted: "garbage" is not unix_ms`, "column date_inserted: 32503680000000 read as unix_ms lies in the year 3000: ",
				"column date_inserted: 1770735600000 read as unix_ms is 3 h ahead of the clock: ", `column date_inserted: "\xff" is not unix_ms`, "column date_inserted: 1000000000000000000 read as unix_ms lies in the year"},
			noBand: 5,
		},
	} {
		t.Run(x.name, func(t *testing.T) {
			f := newFile(t, "CREATE TABLE BACKLOG (id INTEGER PRIMARY KEY, status TEXT DEFAULT 'NEW', date_inserted "+x.decl+", code INTEGER DEFAULT 0)")
			for i := range 6 {
				f.exec("INSERT INTO BACKLOG (id, date_inserted) VALUES (?, ?)", i+1, x.good(noon.Add(time.Duration(i-6)*time.Hour)))
			}
			for i, v := range x.bad {
				f.exec("INSERT INTO BACKLOG (id, date_inserted) VALUES (?, ?)", 11+i, v)
			}
			for i := range 20 { // without these no form would have three quarters
				f.exec("INSERT INTO BACKLOG (id, date_inserted, status) VALUES (?, ?, 'DONE')", 100+i, x.good(noon))
			}
			s := f.store(plainMapping())
			for _, size := range []int{1, 2, 7, 100} {
				records, unreadable := readAll(t, s, backlog.Query{Limit: size})
				wantKeys(t, fmt.Sprintf("fresh lane in pages of %d", size), records, "6 5 4 3 2 1")
				got := make(map[int64]string)
				for _, u := range unreadable {
					got[u.Key.Part(0).(int64)] = u.Err.Error()
				}
				if len(unreadable) != len(x.bad) || len(got) != len(x.bad) {
					t.Errorf("pages of %d: %d unreadable rows, want %d: %v", size, len(unreadable), len(x.bad), unreadable)
				}
				for i, want := range x.want {
					if !strings.HasPrefix(got[int64(11+i)], want) {
						t.Errorf("row %d: got %q, want %q", 11+i, got[int64(11+i)], want)
					}
				}
			}
			ctx := context.Background()
			if samples, err := doctor.Samples(ctx, s, noon); len(samples) != 3 || err != nil {
				t.Errorf("Samples: got %q, %v; three rows can be understood", samples, err)
			}
			c, err := s.Count(ctx, noon, []time.Duration{2 * time.Hour, day})
			if err != nil || c.Pending() != 6+len(x.bad) || c.Unreadable != x.noBand {
				t.Errorf("Count: got %+v, %v, want all that are pending, %d of them in no band", c, err, x.noBand)
			}

			var seen []string
			e := backlog.Engine{Store: s, Handler: backlog.HandlerFunc(func(context.Context, *backlog.Record) error { return nil }),
				Observe: func(ev backlog.Event) {
					if ev.Kind == backlog.UnreadableRow {
						seen = append(seen, ev.Record.Key.String())
					}
				}}
			r, err := e.Pass(ctx, backlog.Pass{MaxAge: ages, Now: noon})
			if err != nil {
				t.Errorf("a pass: %v", err)
			}
			testkit.Equal(t, "succeeded", r.Succeeded, 6)
			testkit.Equal(t, "unreadable", r.Unreadable, len(x.bad))
			if len(seen) != len(x.bad) {
				t.Errorf("the unreadable rows %q were named, want %d", seen, len(x.bad))
			}
		})
	}
}

func TestSamples(t *testing.T) {
	f := newFile(t, `CREATE TABLE BACKLOG (id TEXT PRIMARY KEY, status TEXT DEFAULT 'NEW', date_inserted TEXT);
		INSERT INTO BACKLOG (id, date_inserted) VALUES ('old', '2025-02-10 12:00:00'), ('hours', '2026-02-10 06:30:00'), ('ahead', '2026-02-10 12:30:00')`)
	ctx := context.Background()
	zone, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		zone *time.Location
		want []string
	}{
		{
			want: []string{"row ahead: 2026-02-10 12:30:00 UTC, 30 min ahead of the clock", "row hours: 2026-02-10 06:30:00 UTC, 5 h old", "row old: 2025-02-10 12:00:00 UTC, 365 days old"},
		},
		{
			zone: zone,
			want: []string{"row ahead: 2026-02-10 11:30:00 UTC, 30 min old", "row hours: 2026-02-10 05:30:00 UTC, 6 h old", "row old: 2025-02-10 11:00:00 UTC, 365 days old"},
		},
	} {
		m := plainMapping()
		m.Zone = x.zone
		s, err := f.open(m)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Prove(ctx, noon); err != nil {
			t.Fatal(err)
		}
		got, err := doctor.Samples(ctx, s, noon)
		if err != nil || strings.Join(got, "\n") != strings.Join(x.want, "\n") {
			t.Errorf("zone %v: got %q, %v, want %q", x.zone, got, err, x.want)
		}
	}
	f.exec("INSERT INTO BACKLOG (id, date_inserted) VALUES ('fourth', '2026-02-10 07:00:00'); UPDATE BACKLOG SET status = 'ERROR' WHERE id = 'hours'")
	got, err := doctor.Samples(ctx, f.store(plainMapping()), noon)
	if err != nil || len(got) != 3 {
		t.Errorf("of four rows: got %q, %v, want three", got, err)
	}
}
