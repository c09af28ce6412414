package table_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"backlog/backlog"
	"backlog/backlog/mapping"
	"backlog/backlog/table"
	"backlog/backlog/table/doctor"
)

func plans(tb testing.TB, s *table.Table) []doctor.Plan {
	tb.Helper()
	list, err := doctor.QueryPlans(context.Background(), s, s.PassQueries(noon))
	if err != nil {
		tb.Fatal(err)
	}
	return list
}

func wantGoodPlans(tb testing.TB, what string, s *table.Table) {
	tb.Helper()
	for _, p := range plans(tb, s) {
		if p.Problem != "" {
			tb.Errorf("%s: %s: %s, by %q", what, p.What, p.Problem, p.Steps)
		}
	}
}

// compareCounted is the collation of columns in which it is counted how far a
// query goes: SQLite compares at every row of a range, and a few times to find
// its beginning.
func compareCounted(a, b string) int {
	compared.Add(1)
	return strings.Compare(a, b)
}

// planFile returns a table of n rows of which the dates are counted. The
// status is SQL with the number i of the row in it; oneTime gives all rows the
// same date.
func planFile(t *testing.T, n int, status string, textKeys, oneTime bool) *file {
	t.Helper()
	key, id := "id INTEGER PRIMARY KEY", "i"
	if textKeys {
		key, id = "id TEXT PRIMARY KEY", "printf('%06d', i * 7919 % 1000000)"
	}
	at := "datetime('2026-02-10', '-' || i || ' seconds')"
	if oneTime {
		at = "'2026-02-10 00:00:00'"
	}
	f := newFile(t, "CREATE TABLE BACKLOG ("+key+", status TEXT, date_inserted TEXT COLLATE counted, payload TEXT)")
	f.exec(fmt.Sprintf(`WITH RECURSIVE s(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM s WHERE i < %d)
		INSERT INTO BACKLOG SELECT %s, %s, %s, 'x' FROM s`, n, id, status, at))
	return f
}

// createIndexes does what init does.
func createIndexes(f *file, m mapping.Mapping) {
	f.Helper()
	url := "sqlite:" + f.path
	steps, err := missing(context.Background(), url, m, noon)
	if err == nil {
		err = create(context.Background(), url, steps)
	}
	if err != nil {
		f.Fatal(err)
	}
}

// wantCheapPages reads the fresh lane in pages of a fiftieth and checks that
// a page costs what its rows cost, wherever in the lane it is. With statistics
// it costs something to find out how.
func wantCheapPages(t *testing.T, what string, s *table.Table, rows int, analyzed bool) {
	t.Helper()
	page := max(rows/50, 1)
	find := 60
	if analyzed {
		find = 500
	}
	compared.Store(0)
	records, _ := readAll(t, s, backlog.Query{Limit: page})
	if len(records) != rows {
		t.Errorf("%s: %d records, want %d", what, len(records), rows)
	}
	// A comparison or two for a row, as many to tell a T from a space, and some to find a
	// page. To go through what the pages before have had would be 25 for a row.
	if n, most := compared.Load(), int64(5*rows+find*(rows/page+1)); n > most {
		t.Errorf("%s: %d dates were compared to read %d rows in pages of %d, want at most %d", what, n, rows, page, most)
	}
}

// TestPlansAreGoodAndPagesAreRead: with the indexes to have, and with the one
// that people have, the plan is called good, and rightly, whatever the planner
// knows.
func TestPlansAreGoodAndPagesAreRead(t *testing.T) {
	const n = 1000
	for _, x := range []struct {
		name, status      string
		textKeys, oneTime bool
		fresh             int
	}{
		{"every row new", "'NEW'", false, false, n},
		{"hardly any new", "CASE WHEN i % 100 = 0 THEN 'NEW' ELSE 'DONE' END", false, false, n / 100},
		{"half of them failed", "CASE WHEN i % 2 = 0 THEN 'NEW' ELSE 'ERROR' END", false, false, n / 2},
		{"text keys", "'NEW'", true, false, n},
		{"all of one time", "'NEW'", false, true, n},
		{"all of one time, text keys", "'NEW'", true, true, n},
	} {
		for _, index := range []string{"", "(status, date_inserted)", "(status, date_inserted, id)"} {
			if x.textKeys && index == "(status, date_inserted)" {
				continue // rightly called bad: the rows of one time have to be sorted
			}
			f := planFile(t, n, x.status, x.textKeys, x.oneTime)
			if index == "" {
				createIndexes(f, plainMapping())
			} else {
				f.exec("CREATE INDEX usual ON BACKLOG " + index)
			}
			for _, analyze := range []string{"", "ANALYZE"} {
				f.exec(analyze)
				s := f.store(plainMapping())
				what := fmt.Sprintf("%s, index %q, %s", x.name, index, analyze)
				wantGoodPlans(t, what, s)
				wantCheapPages(t, what, s, x.fresh, analyze != "")
			}
		}
	}
}

// TestPlansOverDays: the statements of one store stay good while a table fills
// and is worked off, whatever the statistics say that were made before or after.
func TestPlansOverDays(t *testing.T) {
	const n, few, page = 5000, 50, 250
	for _, x := range []struct {
		name, status string
		lane         backlog.Lane
		policy       *backlog.Policy
	}{
		{"fresh", "NEW", backlog.Fresh, nil},
		{"failed", "ERROR", backlog.Failed, nil},
		{"counted", "ERROR", backlog.Failed, waiting(-1, time.Minute, time.Minute, 2*time.Minute)},
		{"planned", "ERROR", backlog.Failed, planning(3, time.Minute)},
	} {
		f := newFile(t, `CREATE TABLE BACKLOG (id INTEGER PRIMARY KEY, status TEXT, date_inserted TEXT COLLATE counted, payload TEXT,
			failures INTEGER, last_failure TEXT COLLATE counted, next_try TEXT COLLATE counted, in_retry INTEGER)`)
		m := plainMapping()
		if x.policy != nil {
			m = retryMapping(x.policy)
		}
		createIndexes(f, m)
		s := f.store(m)
		for _, y := range []struct {
			state, change string
			pending       int
		}{
			{"empty", "", 0},
			{"every row pending", fmt.Sprintf(`WITH RECURSIVE s(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM s WHERE i < %d)
				INSERT INTO BACKLOG SELECT i, '%s', datetime('2026-02-10', '-' || i || ' seconds'), 'x', 1 + i %% 3,
				datetime('2026-02-09', '-' || i || ' seconds'), datetime('2026-02-09 01:00:00', '-' || i || ' seconds'), 1 FROM s`, n, x.status), n},
			{"every row pending, analyzed", "ANALYZE", n},
			{"hardly any pending", fmt.Sprintf("UPDATE BACKLOG SET status = 'SUCCESS' WHERE id %% %d <> 0", n/few), few},
			{"hardly any pending, analyzed", "ANALYZE", few},
		} {
			f.exec(y.change)
			what := x.name + ", " + y.state
			wantGoodPlans(t, what, s)
			for range 8 {
				compared.Store(0)
				records, _ := readAll(t, s, backlog.Query{Lane: x.lane, Limit: page})
				if len(records) != y.pending {
					t.Errorf("%s: %d records, want %d", what, len(records), y.pending)
				}
				// Some for each row, and to find where a page begins, with
				// statistics in each of the parts that are merged. To go
				// through all rows for each page would be 20 for a row.
				if got, most := compared.Load(), int64(8*y.pending+2000*(y.pending/page+1)); got > most {
					t.Errorf("%s: %d dates were compared to read %d rows in pages of %d, want at most %d", what, got, y.pending, page, most)
				}
			}
		}
	}
}

// TestPagesOfManyRowsOfOneTime, as a bulk import leaves them.
func TestPagesOfManyRowsOfOneTime(t *testing.T) {
	f := planFile(t, 5000, "'NEW'", false, true)
	createIndexes(f, plainMapping())
	wantCheapPages(t, "5,000 rows of one time", f.store(plainMapping()), 5000, false)
}

// TestPlansAreBadWithoutTheIndex: what is wrong is said with its cure, which
// cures it.
func TestPlansAreBadWithoutTheIndex(t *testing.T) {
	const fresh, failed = `CREATE INDEX IF NOT EXISTS "BACKLOG_backlog_96fef831" ON "BACKLOG" ("status", "date_inserted", "id") WHERE "status" = 'NEW'`,
		`CREATE INDEX IF NOT EXISTS "BACKLOG_backlog_38ee26bc" ON "BACKLOG" ("status", "date_inserted", "id") WHERE "status" = 'ERROR'`
	mail := []mapping.Condition{cond("payload", text("mail"))}
	const bad = "no index serves its pages"
	for _, x := range []struct {
		index string
		where []mapping.Condition
	}{
		{"", nil},
		{"CREATE INDEX x ON BACKLOG (date_inserted)", nil},
		{"CREATE INDEX x ON BACKLOG (date_inserted, status)", nil},
		{"CREATE INDEX x ON BACKLOG (date_inserted) WHERE payload IS NULL OR payload > ''", nil},
		{"CREATE INDEX x ON BACKLOG (status)", nil},
		{"CREATE INDEX x ON BACKLOG (payload, date_inserted)", mail},
		{"CREATE INDEX x ON BACKLOG (status, date_inserted)", mail},
	} {
		f := planFile(t, 300, "'NEW'", false, false)
		f.exec(x.index)
		m := plainMapping()
		m.Where = x.where
		s := f.store(m)
		cures := []string{fresh, failed}
		for i, p := range plans(t, s) {
			if x.where != nil {
				cures[i] = strings.Replace(cures[i], "(", `("payload", `, 1) + ` AND "payload" = 'mail'`
				cures[i] = strings.NewReplacer("96fef831", "c258077f", "38ee26bc", "6d6a5801").Replace(cures[i])
			}
			if p.Problem != bad || p.Hint != cures[i] || len(p.Steps) == 0 {
				t.Errorf("%q: %s: got %q, want %q\ncure %s\nwant %s\nby %q", x.index, p.What, p.Problem, bad, p.Hint, cures[i], p.Steps)
			}
			f.exec(p.Hint)
		}
		wantGoodPlans(t, x.index+", cured", s)
	}
}

// TestPlansOfAllKindsOfStates: the index that is proposed serves, whatever
// the condition it stands for.
func TestPlansOfAllKindsOfStates(t *testing.T) {
	for _, x := range []struct {
		name   string
		change func(*mapping.Mapping)
	}{
		{"several new", func(m *mapping.Mapping) { m.New = is(text("NEW"), text("it's"), null) }},
		{"null", func(m *mapping.Mapping) {
			m.New = mapping.State{When: []mapping.Condition{cond("done_at", null)}}
			m.Success = mapping.State{Set: []mapping.Assignment{set("done_at", text("now")), set("status", text("SUCCESS"))}}
		}},
		{"list with null", func(m *mapping.Mapping) {
			m.Success = mapping.State{Set: []mapping.Assignment{set("flag", text("1")), set("status", text("SUCCESS"))}}
			m.New = mapping.State{When: []mapping.Condition{cond("done_at", null, text("x"), text("y")), cond("flag", text("0"))}}
		}},
		{"where", func(m *mapping.Mapping) {
			m.Where = []mapping.Condition{cond("queue", text("a"), text("b")), cond("flag", text("0")), cond("done_at", null)}
		}},
		{"where list with null", func(m *mapping.Mapping) { m.Where = []mapping.Condition{cond("queue", null, text("b"))} }},
		{"eligible and expires", func(m *mapping.Mapping) {
			m.Eligible, m.Expires = &mapping.Time{Column: "done_at"}, &mapping.Time{Column: "date_inserted"}
		}},
		{"names in another case", func(m *mapping.Mapping) {
			m.Name, m.ID, m.Status, m.Inserted.Column = "backlog", []string{"ID"}, "STATUS", "Date_Inserted"
		}},
	} {
		f := newFile(t, `CREATE TABLE BACKLOG (id INTEGER PRIMARY KEY, status TEXT, date_inserted TEXT, done_at TEXT, flag INTEGER, queue TEXT);
			INSERT INTO BACKLOG VALUES (1, 'NEW', '2026-02-10 01:00:00', '2026-02-10 02:00:00', 0, 'a')`)
		m := plainMapping()
		x.change(&m)
		createIndexes(f, m)
		for _, analyze := range []string{"", "ANALYZE"} {
			f.exec(analyze)
			wantGoodPlans(t, x.name+" "+analyze, f.store(m))
		}
		if steps, err := missing(context.Background(), "sqlite:"+f.path, m, noon); len(steps) > 0 || err != nil {
			t.Errorf("%s: after init there are still missing: %q, %v", x.name, steps, err)
		}
	}
}

// TestIndexNamesThatAreTaken: another configuration of the same table, or an
// earlier one, has indexes of its own.
func TestIndexNamesThatAreTaken(t *testing.T) {
	ctx := context.Background()
	f := newFile(t, `CREATE TABLE BACKLOG (id INTEGER PRIMARY KEY, status TEXT, date_inserted TEXT, queue TEXT);
		CREATE TABLE "BACKLOG_backlog_failed" (x)`)
	url := "sqlite:" + f.path
	mail, sms := plainMapping(), plainMapping()
	mail.Where, sms.Where = []mapping.Condition{cond("queue", text("mail"))}, []mapping.Condition{cond("queue", text("sms"))}
	sms.New = is(text("NEW"), text("AGAIN"))
	for _, m := range []mapping.Mapping{mail, sms} {
		steps, err := missing(ctx, url, m, noon)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := create(ctx, url, steps); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, m := range []mapping.Mapping{mail, sms} {
		wantGoodPlans(t, "two configurations", f.store(m))
	}
	f.wantRows("SELECT name FROM sqlite_master WHERE type = 'index' ORDER BY name",
		"'BACKLOG_backlog_3feb8b4f'", "'BACKLOG_backlog_758dbc86'", "'BACKLOG_backlog_91b40291'", "'BACKLOG_backlog_b104429f'", "'BACKLOG_backlog_ee0a6547'")
}

// TestIndexIsPreferredToOthers: a planner that knows little likes any index
// with an equality on it.
func TestIndexIsPreferredToOthers(t *testing.T) {
	for _, other := range []string{"(status)", "(status, payload)", "(payload, status)", "(date_inserted)", "(date_inserted, status)", "(payload)", "(payload, date_inserted)"} {
		for _, status := range []string{"'NEW'", "CASE WHEN i % 100 = 0 THEN 'NEW' ELSE 'DONE' END"} {
			f := planFile(t, 300, status, false, false)
			f.exec("CREATE INDEX other ON BACKLOG " + other)
			for _, where := range [][]mapping.Condition{nil, {cond("payload", text("x"))}, {cond("payload", text("x"), null)}} {
				m := plainMapping()
				m.Where = where
				createIndexes(f, m)
				s, err := f.open(m)
				if err != nil {
					t.Fatal(err)
				}
				for _, analyze := range []string{"", "ANALYZE"} {
					f.exec(analyze)
					wantGoodPlans(t, fmt.Sprintf("beside an index on %s, status %s, where %v, %s", other, status, where, analyze), s)
				}
				for _, p := range plans(t, s) {
					f.exec("DELETE FROM sqlite_stat1; DROP INDEX " + p.Index)
				}
			}
		}
	}
}
