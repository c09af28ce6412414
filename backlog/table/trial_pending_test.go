package table_test

import (
	"slices"
	"strings"
	"testing"

	"backlog/backlog"
	"backlog/backlog/table"
)

// TestWhatStaysPendingIsRefused, whatever rows there are to try it on, if any.
func TestWhatStaysPendingIsRefused(t *testing.T) {
	const create = "CREATE TABLE BACKLOG (id INTEGER PRIMARY KEY, status TEXT NOT NULL COLLATE NOCASE CHECK (length(status) > 1), date_inserted TEXT, kind INTEGER, done INTEGER)"
	row := func(values string) string { return "; INSERT INTO BACKLOG VALUES " + values }
	when := func(list ...table.Condition) func(*table.Mapping) {
		return func(m *table.Mapping) {
			m.New, m.Error = table.State{When: list}, table.State{Keep: true}
			m.Success = table.State{Set: []table.Assignment{set("done", text("2"))}}
		}
	}
	same := func(m *table.Mapping) { m.Success = is(text("New")) }
	const wanted = `statuses.success: with "status" = 'New' a record that succeeded would still be new to the database and be tried for ever; write what does not meet the condition of new`
	const wantedSet = `statuses.success: with "done" = 2 a record that succeeded would still be new to the database and be tried for ever; write what does not meet the condition of new`
	for _, x := range []struct {
		name, rows string
		change     func(*table.Mapping)
		want       string // "": none
	}{
		{"no row", "", same, wanted},
		{"a row in the state", row("(1, 'NEW', '2026-02-10 11:00:00', 1, 0)"), same, wanted},
		{"a row in another state", row("(1, 'SUCCESS', '2026-02-10 11:00:00', 1, 0)"), same, wanted},
		{"within a filter", "", func(m *table.Mapping) { same(m); m.Where = []table.Condition{cond("kind", text("1"))} }, wanted},
		{"in error", "", func(m *table.Mapping) { m.Success = is(text("error")) }, strings.NewReplacer("New", "error", "be new", "be in error", "of new", "of error").Replace(wanted)},
		{"dead", "", func(m *table.Mapping) { m.Dead = is(text("new")) },
			`statuses.dead: with "status" = 'new' a dead record would still be new to the database and be tried for ever; write what does not meet the condition of new`},
		{"a list and no row", "", when(cond("kind", text("1"), text("2")), cond("done", text("0"), text("2"))), wantedSet},
		{"within a filter of several", "", func(m *table.Mapping) { same(m); m.Where = []table.Condition{cond("kind", text("1"), text("2"))} }, wanted},
		{"a list", row("(1, 'A', '2026-02-10 11:00:00', 1, 0)"), when(cond("kind", text("1"), text("2")), cond("done", text("0"), text("2"))), wantedSet},
		{"a list that it leaves", row("(1, 'AA', '2026-02-10 11:00:00', 1, 0)"), when(cond("kind", text("1"), text("2")), cond("done", text("0"), text("1"))), ""},
		{"NULL", "", when(cond("done", null)), ""},
		{"not NULL", "", when(cond("kind", null)), wantedSet},
	} {
		t.Run(x.name, func(t *testing.T) {
			f, m := newFile(t, create+strings.ReplaceAll(x.rows, "'A'", "'AA'")), plainMapping()
			x.change(&m)
			if x.want != "" {
				f.wantRefused(m, x.want)
			} else {
				f.store(m)
			}
		})
	}
}

// TestFailureThatStaysNew is worth a word without a policy, and refused where
// one counts on it.
func TestFailureThatStaysNew(t *testing.T) {
	f, m := newFile(t, "CREATE TABLE BACKLOG (id INTEGER PRIMARY KEY, status TEXT COLLATE NOCASE, date_inserted TEXT, failures INTEGER, last_failure TEXT)"), plainMapping()
	m.Error = is(text("new"))
	want := `statuses.error is one of statuses.new to the database, with "status" = 'new': failed records are not told from new ones, and age alone decides when they are tried`
	if got := f.store(m).Notes(); !slices.Contains(got, want) {
		t.Errorf("Notes: got %q, want %q", got, want)
	}
	m.Retry = retryColumns(fibonacci(), "failures", "last_failure")
	f.wantRefused(m, `statuses.error: with "status" = 'new', … a failed record would still be new to the database and be tried at once; write what does not meet the condition of new`)
}

// TestWorkThatIsUndone: what is done for a record whose settlement a trigger
// undoes is undone with it.
func TestWorkThatIsUndone(t *testing.T) {
	for _, trigger := range []string{
		"BEFORE UPDATE ON BACKLOG BEGIN SELECT raise(IGNORE); END",
		"AFTER UPDATE OF status ON BACKLOG BEGIN UPDATE BACKLOG SET status = old.status WHERE id = old.id; END",
	} {
		f := orders(t)
		f.exec("CREATE TRIGGER guard " + trigger)
		s := f.store(plainMapping())
		w := newWork(t, s, "INSERT INTO shipped VALUES (:id, :item)")
		for _, r := range lane(t, s, backlog.Fresh) {
			if err := do(w, r); err == nil || !strings.Contains(err.Error(), "statuses.success is undone: a row of table BACKLOG is as it was after it was written, which is the work of a trigger: guard") {
				t.Errorf("%s: record %v: got %v", trigger, r.Key, err)
			}
		}
		f.wantRows("SELECT count(*) FROM shipped", "0")
	}
}
