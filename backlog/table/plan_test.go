package table_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"backlog/backlog"
	"backlog/backlog/table"
)

func plans(tb testing.TB, s *table.Table) []table.Plan {
	tb.Helper()
	list, err := s.Plans(context.Background())
	if err != nil {
		tb.Fatal(err)
	}
	return list
}

func wantGoodPlans(tb testing.TB, s *table.Table) {
	tb.Helper()
	for _, p := range plans(tb, s) {
		if p.Bad != "" {
			tb.Errorf("%s: %s, by %q", p.What, p.Bad, p.Steps)
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

const (
	planRows = 5000
	planPage = 100
)

// planFile returns a table of which the dates are counted, with planRows rows
// and other text keys if textKeys; oneTime gives all of them the same date.
func planFile(t *testing.T, status string, textKeys, oneTime bool) *file {
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
		INSERT INTO BACKLOG SELECT %s, %s, %s, 'x' FROM s`, planRows, id, status, at))
	return f
}

// createIndexes does what init does.
func createIndexes(f *file, m table.Mapping) {
	f.Helper()
	url := "sqlite:" + f.path
	steps, err := table.Missing(context.Background(), url, m)
	if err == nil {
		err = table.Create(context.Background(), url, steps)
	}
	if err != nil {
		f.Fatal(err)
	}
}

// TestPlansAreGoodAndPagesAreRead: with the indexes to have, and with the one
// that people have, the plan is called good and a page costs what its rows
// cost, wherever in the lane it is and whatever the planner knows.
func TestPlansAreGoodAndPagesAreRead(t *testing.T) {
	const (
		allNew    = "'NEW'"
		hardlyAny = "CASE WHEN i % 100 = 0 THEN 'NEW' ELSE 'DONE' END"
		half      = "CASE WHEN i % 2 = 0 THEN 'NEW' ELSE 'ERROR' END"
	)
	for _, index := range []string{"", "CREATE INDEX usual ON BACKLOG (status, date_inserted)", "CREATE INDEX usual ON BACKLOG (status, date_inserted, id)"} {
		for _, x := range []struct {
			name, status      string
			textKeys, oneTime bool
			rows              int // fresh
		}{
			{"every row new", allNew, false, false, planRows},
			{"hardly any new", hardlyAny, false, false, planRows / 100},
			{"half of them failed", half, false, false, planRows / 2},
			{"every row new, text keys", allNew, true, false, planRows},
			{"all of one time", allNew, false, true, planRows},
			{"all of one time, text keys", allNew, true, true, planRows},
		} {
			if x.textKeys && index != "" && !strings.Contains(index, "id") {
				continue // rightly called bad: the rows of one time have to be sorted
			}
			for _, analyzed := range []bool{false, true} {
				name := fmt.Sprintf("%s, index %q, analyzed %v", x.name, index, analyzed)
				f := planFile(t, x.status, x.textKeys, x.oneTime)
				if index == "" {
					createIndexes(f, plainMapping())
				}
				f.exec(index)
				if analyzed {
					f.exec("ANALYZE")
				}
				s := f.store(plainMapping())
				for _, p := range plans(t, s) {
					if p.Bad != "" {
						t.Errorf("%s: %s: %s, by %q", name, p.What, p.Bad, p.Steps)
					}
				}
				compared.Store(0)
				records, _ := readAll(t, s, backlog.Query{Limit: planPage})
				if len(records) != x.rows {
					t.Errorf("%s: %d records, want %d", name, len(records), x.rows)
				}
				// A comparison or two for a row, some to find a page, and with
				// statistics some to find out how.
				if n, most := compared.Load(), int64(3*x.rows+300*(x.rows/planPage+1)); n > most {
					t.Errorf("%s: %d dates were compared to read %d rows in pages of %d, want at most %d", name, n, x.rows, planPage, most)
				}
			}
		}
	}
}

// TestPlansAreBadWithoutTheIndex: what is wrong is said with its cure, which
// cures it.
func TestPlansAreBadWithoutTheIndex(t *testing.T) {
	const fresh, failed = `CREATE INDEX IF NOT EXISTS "BACKLOG_backlog_fresh" ON "BACKLOG" ("status", "date_inserted", "id") WHERE "status" = 'NEW'`,
		`CREATE INDEX IF NOT EXISTS "BACKLOG_backlog_failed" ON "BACKLOG" ("status", "date_inserted", "id") WHERE "status" = 'ERROR'`
	mail := []table.Condition{cond("payload", text("mail"))}
	for _, x := range []struct {
		index string
		where []table.Condition
		bad   string
	}{
		{"", nil, "every page reads the whole table"},
		{"CREATE INDEX x ON BACKLOG (date_inserted)", nil, "every page reads rows of every status"},
		{"CREATE INDEX x ON BACKLOG (date_inserted, status)", nil, "every page reads rows of every status"},
		{"CREATE INDEX x ON BACKLOG (date_inserted) WHERE payload IS NULL OR payload > ''", nil, "every page reads the whole table"},
		{"CREATE INDEX x ON BACKLOG (status)", nil, "every page sorts all that is pending"},
		{"CREATE INDEX x ON BACKLOG (payload, date_inserted)", mail, "every page reads rows of every status"},
		{"CREATE INDEX x ON BACKLOG (date_inserted) WHERE payload = 'mail'", mail, "every page reads rows of every status"},
		{"CREATE INDEX x ON BACKLOG (status, date_inserted)", mail, "every page reads rows that table.where leaves out by payload"},
	} {
		f := planFile(t, "'NEW'", false, false)
		f.exec(x.index)
		m := plainMapping()
		m.Where = x.where
		s := f.store(m)
		cures := []string{fresh, failed}
		for i, p := range plans(t, s) {
			if x.where != nil {
				cures[i] = strings.Replace(cures[i], "(", `("payload", `, 1) + ` AND "payload" = 'mail'`
			}
			if p.Bad != x.bad || p.Cure != cures[i] {
				t.Errorf("%q: %s: got %q, want %q\ncure %s\nwant %s\nby %q", x.index, p.What, p.Bad, x.bad, p.Cure, cures[i], p.Steps)
			}
			f.exec(p.Cure)
		}
		for _, p := range plans(t, s) {
			if p.Bad != "" {
				t.Errorf("%q: %s: the cure has not helped: %s, by %q", x.index, p.What, p.Bad, p.Steps)
			}
		}
	}
}

// TestPlansOfAllKindsOfStates: the index that is proposed serves, whatever
// the condition it stands for.
func TestPlansOfAllKindsOfStates(t *testing.T) {
	for _, x := range []struct {
		name   string
		change func(*table.Mapping)
	}{
		{"several new", func(m *table.Mapping) { m.New = is(text("NEW"), text("it's"), null) }},
		{"null", func(m *table.Mapping) { m.New = table.State{When: []table.Condition{cond("done_at", null)}} }},
		{"list with null", func(m *table.Mapping) {
			m.New = table.State{When: []table.Condition{cond("done_at", null, text("x"), text("y")), cond("flag", text("0"))}}
		}},
		{"where", func(m *table.Mapping) {
			m.Where = []table.Condition{cond("queue", text("a"), text("b")), cond("flag", text("0")), cond("done_at", null)}
		}},
		{"where list with null", func(m *table.Mapping) { m.Where = []table.Condition{cond("queue", null, text("b"))} }},
		{"eligible and expires", func(m *table.Mapping) {
			m.Eligible, m.Expires = &table.Time{Column: "done_at"}, &table.Time{Column: "date_inserted"}
		}},
		{"names in another case", func(m *table.Mapping) {
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
			for _, p := range plans(t, f.store(m)) {
				if p.Bad != "" {
					t.Errorf("%s %s: %s: %s, by %q", x.name, analyze, p.What, p.Bad, p.Steps)
				}
			}
		}
		if steps, err := table.Missing(context.Background(), "sqlite:"+f.path, m); len(steps) > 0 || err != nil {
			t.Errorf("%s: after init there are still missing: %q, %v", x.name, steps, err)
		}
	}
}

// TestIndexNamesThatAreTaken: another configuration of the same table, or an
// earlier one, has indexes of the same names.
func TestIndexNamesThatAreTaken(t *testing.T) {
	ctx := context.Background()
	f := newFile(t, `CREATE TABLE BACKLOG (id INTEGER PRIMARY KEY, status TEXT, date_inserted TEXT, queue TEXT);
		CREATE TABLE "backlog_BACKLOG_failed" (x)`)
	url := "sqlite:" + f.path
	mail, sms := plainMapping(), plainMapping()
	mail.Where, sms.Where = []table.Condition{cond("queue", text("mail"))}, []table.Condition{cond("queue", text("sms"))}
	sms.New = is(text("NEW"), text("AGAIN"))
	for _, m := range []table.Mapping{mail, sms} {
		steps, err := table.Missing(ctx, url, m)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := table.Create(ctx, url, steps); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, m := range []table.Mapping{mail, sms} {
		wantGoodPlans(t, f.store(m))
	}
	f.wantRows("SELECT name FROM sqlite_master WHERE type = 'index' ORDER BY name",
		"'BACKLOG_backlog_failed_v2'", "'BACKLOG_backlog_failed_v3'", "'BACKLOG_backlog_fresh'", "'BACKLOG_backlog_fresh_1'", "'BACKLOG_backlog_fresh_v2'")
}

// TestIndexIsPreferredToOthers: a planner that knows little likes any index
// with an equality on it.
func TestIndexIsPreferredToOthers(t *testing.T) {
	for _, other := range []string{"(status)", "(status, payload)", "(payload, status)", "(date_inserted)", "(date_inserted, status)", "(payload)", "(payload, date_inserted)"} {
		for _, status := range []string{"'NEW'", "CASE WHEN i % 500 = 0 THEN 'NEW' ELSE 'DONE' END"} {
			for _, where := range [][]table.Condition{nil, {cond("payload", text("x"))}, {cond("payload", text("x"), null)}} {
				f := planFile(t, status, false, false)
				f.exec("CREATE INDEX other ON BACKLOG " + other)
				m := plainMapping()
				m.Where = where
				createIndexes(f, m)
				for _, analyze := range []string{"", "ANALYZE"} {
					f.exec(analyze)
					for _, p := range plans(t, f.store(m)) {
						if p.Bad != "" {
							t.Errorf("beside an index on %s, status %s, where %v, %s: %s: %s, by %q", other, status, where, analyze, p.What, p.Bad, p.Steps)
						}
					}
				}
			}
		}
	}
}
