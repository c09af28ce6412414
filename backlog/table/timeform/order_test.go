package timeform

import (
	"cmp"
	"database/sql"
	"fmt"
	"math/big"
	"strconv"
	"strings"
	"testing"
	"time"

	_ "modernc.org/sqlite"
	"pgregory.net/rapid"

	"backlog/internal/testkit"
)

// compare compares as SQLite does without affinity: numbers by value, texts by bytes, and numbers before
// texts.
func compare(a, b any) int {
	number := func(v any) *big.Float {
		switch v := v.(type) {
		case int64:
			return new(big.Float).SetInt64(v)
		case float64:
			return big.NewFloat(v)
		}
		return nil
	}
	switch x, y := number(a), number(b); {
	case x != nil && y != nil:
		return x.Cmp(y)
	case x != nil:
		return -1
	case y != nil:
		return 1
	}
	return strings.Compare(a.(string), b.(string))
}

// isBelow compares as the statements of package table do.
func isBelow(raw any, c Cut) bool {
	if c.Gap == nil {
		return compare(raw, c.Low) < 0
	}
	return compare(raw, c.High) < 0 && (compare(raw, c.Low) < 0 || compare(raw, c.Gap) >= 0)
}

// columns are columns with samples, from which their form is detected, and with the ways in which programs
// write a time to them.
var columns = []struct {
	name    string
	samples []any
	step    time.Duration // of the form, if it is coarser than a second
	render  func(t *rapid.T, u time.Time) any
	utc     bool // it says nothing in another zone
}{
	{"text", []any{"2026-01-01 12:00:00"}, 0, func(t *rapid.T, u time.Time) any {
		return u.Format("2006-01-02 15:04:05") + drawFraction(t, u)
	}, false},
	{"text in UTC", []any{"2026-01-01T12:00:00Z", "2026-01-01T12:00:00.5+00:00"}, 0, func(t *rapid.T, u time.Time) any {
		return u.UTC().Format("2006-01-02T15:04:05") + drawFraction(t, u) + rapid.SampledFrom([]string{
			"Z", "+00:00", "+0000", "+00", "-00:00", " +00:00", " UTC", " +0000 UTC", " +0000 UTC m=-0.1"}).Draw(t, "suffix")
	}, false},
	{"text with an offset", []any{"2026-01-01T12:00:00.000-03:30"}, 0, func(t *rapid.T, u time.Time) any {
		return u.In(time.FixedZone("", -12600)).Format("2006-01-02T15:04:05") + drawFraction(t, u) +
			rapid.SampledFrom([]string{"-03:30", "-0330", " -0330 NST"}).Draw(t, "suffix")
	}, false},
	{"text in many ways", []any{"2026-01-01T12:00:00Z", "2026-01-01 12:00:00"}, 0, func(t *rapid.T, u time.Time) any {
		suffix := rapid.SampledFrom([]string{"", "Z", "+00:00", " UTC"}).Draw(t, "suffix")
		divided := rapid.SampledFrom([]string{" ", "T"}).Draw(t, "divided by")
		if u.UTC().Second() == 0 && u.Nanosecond() == 0 && suffix != "Z" {
			return u.UTC().Format("2006-01-02"+divided+"15:04") + suffix
		}
		return u.UTC().Format("2006-01-02"+divided+"15:04:05") + drawFraction(t, u) + suffix
	}, true}, {"minutes", []any{"2026-01-01 12:00"}, time.Minute, func(_ *rapid.T, u time.Time) any { return u.Format("2006-01-02 15:04") }, false},
	{"minutes in UTC", []any{"2026-01-01T12:00Z"}, time.Minute, func(t *rapid.T, u time.Time) any {
		return u.UTC().Format("2006-01-02T15:04") + rapid.SampledFrom([]string{"Z", "+00:00"}).Draw(t, "suffix")
	}, false},
	{"days", []any{"2026-01-01"}, 24 * time.Hour, func(_ *rapid.T, u time.Time) any { return u.Format("2006-01-02") }, false},
	{"digits", []any{"20260101120000"}, 0, func(t *rapid.T, u time.Time) any { return u.Format(compact) + drawFraction(t, u) }, false},
	{"digits as integer", []any{int64(20260101120000)}, 0, func(_ *rapid.T, u time.Time) any {
		n, _ := strconv.ParseInt(u.Format(compact), 10, 64)
		return n
	}, false},
	{"seconds", []any{int64(1767225600)}, 0, func(t *rapid.T, u time.Time) any {
		if rapid.Bool().Draw(t, "whole") {
			return u.Unix()
		}
		return float64(u.UnixNano()) / 1e9
	}, false},
	{"seconds as real", []any{1767225600.5}, 0, func(_ *rapid.T, u time.Time) any { return float64(u.UnixNano()) / 1e9 }, false},
	{"milliseconds", []any{int64(1767225600000)}, 0, func(_ *rapid.T, u time.Time) any { return u.UnixMilli() }, false},
	{"milliseconds as real", []any{1767225600000.5}, 0, func(_ *rapid.T, u time.Time) any { return float64(u.UnixNano()) / 1e6 }, false},
	{"microseconds", []any{int64(1767225600000000)}, 0, func(_ *rapid.T, u time.Time) any { return u.UnixMicro() }, false},
	{"julian", []any{2461041.5}, 0, func(_ *rapid.T, u time.Time) any {
		return 2440587.5 + float64(u.UnixNano())/864e11 // not SQLite's own way
	}, false},
}

// drawFraction returns the fraction of u, truncated to a random width.
func drawFraction(t *rapid.T, u time.Time) string {
	n := rapid.IntRange(0, 9).Draw(t, "digits")
	if n == 0 {
		return ""
	}
	return "." + fmt.Sprintf("%09d", u.Nanosecond())[:n]
}

var zoneNames = []string{"UTC", "Asia/Kolkata", "America/New_York", "Europe/Berlin", "Australia/Lord_Howe"}

// draw returns two times of the years 2002 to 2100. The first one is often close to a change of the
// zone's clock, and the second one is often close to the first.
func draw(t *rapid.T, zone *time.Location) (at, other time.Time) {
	at = time.Unix(rapid.Int64Range(1009843200, endUnix-1e6).Draw(t, "unix"), 0).In(zone)
	if _, change := at.ZoneBounds(); !change.IsZero() && rapid.Bool().Draw(t, "near a change") {
		at = change.Add(time.Duration(rapid.Int64Range(-10800, 10800).Draw(t, "from the change")) * time.Second)
	}
	if rapid.Bool().Draw(t, "with a fraction") {
		at = at.Add(time.Duration(rapid.Int64Range(0, 999999999).Draw(t, "fraction")))
	}
	reach := rapid.SampledFrom([]time.Duration{0, 1000, time.Millisecond, 2 * time.Second, 2 * time.Hour, 50 * time.Hour}).Draw(t, "reach")
	return at, at.Add(time.Duration(rapid.Int64Range(int64(-reach), int64(reach)).Draw(t, "apart")))
}

// Every value for t or later is at or above lower(t), and every value for t or earlier is below beyond(t).
// Few other values are.
func TestBounds(t *testing.T) {
	for _, column := range columns {
		for _, name := range zoneNames {
			if column.utc && name != "UTC" {
				continue
			}
			t.Run(column.name+"/"+name, func(t *testing.T) {
				zone := testkit.Zone(t, name)
				f := detected(t, name, column.samples...)
				rapid.Check(t, func(t *rapid.T) {
					at, u := draw(t, zone)
					raw := column.render(t, u)
					checkBounds(t, f, at, raw, column.step, zone)
					if _, ok := f.codec.(Calendar); ok && column.step == 0 {
						checkMeant(t, f, at, u, raw)
					}
				})
			})
		}
	}
}

func checkBounds(t *rapid.T, f Form, at time.Time, raw any, step time.Duration, zone *time.Location) {
	stands, err := f.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	lower, beyond := f.Since(at), f.Until(at)
	above, below := !isBelow(raw, lower), isBelow(raw, beyond)
	if !stands.Before(at) && !above {
		t.Errorf("%#v stands for %v, but is below lower(%v) = %#v", raw, stands, at, lower)
	}
	if !stands.After(at) && !below {
		t.Errorf("%#v stands for %v, but is not below beyond(%v) = %#v", raw, stands, at, beyond)
	}
	_, past := at.Add(-48 * time.Hour).In(zone).Zone()
	if _, future := at.Add(48 * time.Hour).In(zone).Zone(); past != future {
		return // the clock may be set back
	}
	early, late := time.Second, max(2*time.Second, step)
	if step == time.Minute {
		early = step
	}
	if above && at.Sub(stands) >= early {
		t.Errorf("lower(%v) = %#v admits %#v, which stands for %v", at, lower, raw, stands)
	}
	if below && stands.Sub(at) > late {
		t.Errorf("beyond(%v) = %#v admits %#v, which stands for %v", at, beyond, raw, stands)
	}
}

// checkMeant checks the lower bound for the time that was written. If the clock shows that twice, the time
// that is read may be another one.
func checkMeant(t *rapid.T, f Form, at, u time.Time, raw any) {
	if s := u.Truncate(time.Second); !s.Before(at) && isBelow(raw, f.Since(at)) {
		t.Errorf("%#v is of %v, but below lower(%v) = %#v", raw, u, at, f.Since(at))
	}
}

// A time that is written is read again truncated to the precision of the form, or later if the clock shows
// it twice. exact splits such values at t.
func TestWrite(t *testing.T) {
	forms := []struct {
		precision time.Duration
		samples   []any
	}{
		{time.Second, []any{"2026-01-01 12:00:00"}},
		{time.Millisecond, []any{"2026-01-01T12:00:00.123"}},
		{time.Microsecond, []any{"2026-01-01 12:00:00", "2026-01-01 12:00:00.123456"}},
		{time.Microsecond, []any{"2026-01-01 12:00:00.1", "2026-01-01 12:00:00.123"}},
		{time.Nanosecond, []any{"2026-01-01T12:00:00.123456789Z"}},
		{time.Second, []any{"2026-01-01 12:00:00+02:00"}},
		{time.Minute, []any{"2026-01-01 12:00"}},
		{time.Second, []any{int64(20260101120000)}},
		{time.Second, []any{int64(1767225600)}},
		{time.Microsecond, []any{1767225600.5}},
		{time.Millisecond, []any{int64(1767225600000)}},
		{time.Microsecond, []any{int64(1767225600000000)}},
		{time.Millisecond, []any{2461041.5}},
	}
	for _, name := range zoneNames {
		zone := testkit.Zone(t, name)
		for _, c := range forms {
			f := detected(t, name, c.samples...)
			rapid.Check(t, func(t *rapid.T) {
				at, u := draw(t, zone)
				raw := f.Write(u)
				got, err := f.Parse(raw)
				if err != nil {
					t.Fatal(err)
				}
				want := u.Truncate(c.precision)
				if again := got.After(want) && wallAt(got, zone).Equal(wallAt(want, zone)); !got.Equal(want) && !again {
					t.Errorf("%v: wrote %#v for %v, read as %v", f, raw, u, got)
				}
				if exact := f.Split(at); isBelow(raw, exact) != got.Before(at) {
					t.Errorf("%v: exact(%v) = %#v, and %#v stands for %v", f, at, exact, raw, got)
				}
			})
		}
	}
}

// The times that a clock shows are ordered like their instants. This includes times that it skips.
func TestReadingsOrdered(t *testing.T) {
	for _, name := range append(zoneNames, "Pacific/Apia", "America/Sao_Paulo") {
		zone := testkit.Zone(t, name)
		f := detected(t, name, "2026-01-01 12:00:00.000")
		rapid.Check(t, func(t *rapid.T) {
			at, u := draw(t, zone)
			const layout = "2006-01-02 15:04:05.000"
			a, b := wallAt(at, zone).Format(layout), wallAt(u, time.UTC).Format(layout)
			x, errX := f.Parse(a)
			y, errY := f.Parse(b)
			if errX != nil || errY != nil || cmp.Compare(a, b)*x.Compare(y) < 0 {
				t.Errorf("%s is %v, %s is %v (%v, %v)", a, x, b, y, errX, errY)
			}
			checkBounds(t, f, at, b, 0, zone)
		})
	}
}

// The bounds also hold with SQLite's own functions, affinities and comparisons.
func TestSQLite(t *testing.T) {
	db := testkit.OpenPool(t, "sqlite", ":memory:")
	db.SetMaxOpenConns(1)
	for _, c := range []struct{ column, value, class string }{
		{"TEXT", "strftime('%Y-%m-%d %H:%M:%S', x)", "text"},
		{"DATETIME", "strftime('%Y-%m-%d %H:%M:%f', x)", "text"},
		{"DATETIME", "strftime('%Y-%m-%dT%H:%M:%fZ', x)", "text"},
		{"", "strftime('%Y-%m-%d %H:%M:%S', x) || CASE n % 2 WHEN 0 THEN '.5' ELSE '' END || '+00:00'", "text"},
		{"TEXT", "date(x)", "text"},
		{"TEXT", "strftime('%Y-%m-%d %H:%M', x)", "text"},
		{"TEXT", "strftime('%Y%m%d%H%M%S', x)", "text"},
		{"NUMERIC", "strftime('%Y%m%d%H%M%S', x)", "integer"},
		{"DATETIME", "strftime('%Y%m%d%H%M%S', x)", "integer"},
		{"REAL", "strftime('%Y%m%d%H%M%S', x)", "real"},
		{"INTEGER", "strftime('%s', x)", "integer"},
		{"REAL", "unixepoch(x, 'subsec')", "real"},
		{"INTEGER", "CAST(round(unixepoch(x, 'subsec') * 1000) AS INTEGER)", "integer"},
		{"NUMERIC", "julianday(x)", "real"},
		{"", "julianday(x)", "real"},
	} {
		t.Run(c.column+" "+c.value, func(t *testing.T) {
			checkSQLite(t, db, c.column, c.value, c.class)
		})
	}
}

func checkSQLite(t *testing.T, db *sql.DB, column, value, class string) {
	if _, err := db.Exec(`DROP TABLE IF EXISTS t; CREATE TABLE t (n INTEGER PRIMARY KEY, v ` + column + `); CREATE INDEX i ON t (v)`); err != nil {
		t.Fatal(err)
	}
	// Every 1097.377 s, from midnight on.
	if _, err := db.Exec(`WITH RECURSIVE s (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM s WHERE n < 99)
		INSERT INTO t SELECT n, ` + value + ` FROM (SELECT n, strftime('%Y-%m-%d %H:%M:%f', '2026-01-01', (n * 1097.377) || ' seconds') AS x FROM s)`); err != nil {
		t.Fatal(err)
	}
	var odd int
	if err := db.QueryRow(`SELECT count(*) FROM t WHERE typeof(v) <> ?`, class).Scan(&odd); err != nil || odd > 1 {
		t.Fatalf("%d values are not of class %s, %v", odd, class, err) // one Julian day is whole
	}
	all, stands, samples := list(t, db, "true"), map[int64]time.Time{}, []any{}
	for _, raw := range all {
		samples = append(samples, raw)
	}
	f := detected(t, "UTC", samples...)
	for n, raw := range all {
		at, err := f.Parse(raw)
		if err != nil {
			t.Fatal(err)
		}
		stands[n] = at
	}
	for i := int64(0); i < 100; i += 3 {
		at := stands[i].Add(time.Duration(i%5-2) * time.Millisecond)
		from, to := list(t, db, "v >= ?", f.Lower(at)), list(t, db, "v < ?", f.Beyond(at))
		before := list(t, db, "v < ?", f.Exact(at))
		for n, raw := range all {
			if _, ok := from[n]; !ok && !stands[n].Before(at) {
				t.Fatalf("%v: %#v is not >= lower(%v) = %#v", f, raw, at, f.Lower(at))
			}
			if _, ok := to[n]; !ok && !stands[n].After(at) {
				t.Fatalf("%v: %#v is not < beyond(%v) = %#v", f, raw, at, f.Beyond(at))
			}
			if _, ok := before[n]; ok != stands[n].Before(at) {
				t.Fatalf("%v: %#v < exact(%v) = %#v is %v", f, raw, at, f.Exact(at), ok)
			}
		}
	}
	var got any
	if err := db.QueryRow(`INSERT INTO t (v) VALUES (?) RETURNING +v`, f.Write(time.Unix(1767268800, 0))).Scan(&got); err != nil {
		t.Fatal(err)
	}
	if at, err := f.Parse(got); err != nil || at.Unix() != 1767268800 && at.Unix() != 1767225600 {
		t.Errorf("%v: wrote %v, read %v, %v", f, got, at, err)
	}
}

// list returns the values of the rows that meet a condition.
func list(t *testing.T, db *sql.DB, where string, args ...any) map[int64]any {
	t.Helper()
	rows, err := db.Query(`SELECT n, +v FROM t WHERE `+where, args...)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	list := map[int64]any{}
	for rows.Next() {
		var n int64
		var raw any
		if err := rows.Scan(&n, &raw); err != nil {
			t.Fatal(err)
		}
		list[n] = raw
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return list
}

// A form that is configured rather than detected binds text. The affinity of the column converts it to a
// number, as it has converted the values.
func TestSQLiteAffinity(t *testing.T) {
	db := testkit.OpenPool(t, "sqlite", ":memory:")
	db.SetMaxOpenConns(1)
	if _, err := db.Exec(`CREATE TABLE t (n INTEGER PRIMARY KEY, v DATETIME);
		INSERT INTO t (v) VALUES ('20260101115959'), ('20260101120000'), ('20260101120000.5'), ('20260101120001')`); err != nil {
		t.Fatal(err)
	}
	f, err := Parse("text:20060102150405", time.UTC)
	if err != nil {
		t.Fatal(err)
	}
	noon := time.Unix(1767268800, 0)
	if from, to := list(t, db, "v >= ?", f.Lower(noon)), list(t, db, "v < ?", f.Exact(noon)); len(from) != 3 || len(to) != 1 {
		t.Errorf("%d from noon, %d before", len(from), len(to))
	}
	for n, raw := range list(t, db, "true") {
		if _, isText := raw.(string); isText {
			t.Fatalf("%#v was not made a number", raw)
		}
		want := noon.Add([]time.Duration{-time.Second, 0, time.Second / 2, time.Second}[n-1])
		if at, err := f.Parse(raw); err != nil || !at.Equal(want) {
			t.Errorf("%#v is %v, %v, want %v", raw, at, err, want)
		}
	}
}
