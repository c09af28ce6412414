package table_test

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"backlog/backlog"
	"backlog/backlog/inspect"
	"backlog/backlog/mapping"
	"backlog/backlog/table"
	"backlog/internal/testkit"
)

func TestParseKey(t *testing.T) {
	for _, x := range []struct {
		decl, text string
		want       backlog.Key
		problem    string
	}{
		{"k INTEGER PRIMARY KEY", "7", backlog.NewKey(int64(7)), ""},
		{"k INTEGER PRIMARY KEY", "-9223372036854775808", backlog.NewKey(int64(-1 << 63)), ""},
		{"k INTEGER PRIMARY KEY", "x", backlog.Key{}, `x is not a whole number, and column k is INTEGER`},
		{"k TEXT PRIMARY KEY", "0123", backlog.NewKey("0123"), ""},
		{"k TEXT PRIMARY KEY", `["a"]`, backlog.NewKey(`["a"]`), ""},
		{"k BLOB PRIMARY KEY", "AP8=", backlog.NewKey([]byte{0, 0xff}), ""},
		{"k uuid PRIMARY KEY", "a-1", backlog.NewKey("a-1"), ""},
		{"k TEXT, l INT, PRIMARY KEY (k, l)", `["a", 9007199254740993]`, backlog.NewKey("a", int64(9007199254740993)), ""},
		{"k TEXT, l INT, PRIMARY KEY (k, l)", `[7, "8"]`, backlog.NewKey("7", int64(8)), ""},
		{"k TEXT, l INT, PRIMARY KEY (k, l)", `a`, backlog.Key{}, `"a" is not a key of 2 columns: write a JSON array, such as '["a", 7]'`},
		{"k TEXT, l INT, PRIMARY KEY (k, l)", `["a"]`, backlog.Key{}, `"[\"a\"]" is not a key of 2 columns: write a JSON array, such as '["a", 7]'`},
		{"k TEXT, l INT, PRIMARY KEY (k, l)", `["a", null]`, backlog.Key{}, `null is not a whole number, and column l is INT`},
	} {
		columns, end, _ := strings.Cut(x.decl, ", PRIMARY")
		if end != "" {
			end = ", PRIMARY" + end
		}
		f := newFile(t, "CREATE TABLE BACKLOG ("+columns+", status TEXT, date_inserted TEXT"+end+")")
		m := plainMapping()
		m.ID = []string{"K"}
		if x.want.Len() == 2 || end != "" {
			m.ID = []string{"K", "L"}
		}
		s := f.store(m)
		got, err := s.ParseKey(x.text)
		if x.problem != "" {
			if err == nil || err.Error() != x.problem {
				t.Errorf("%s, %s: got error %v, want %s", x.decl, x.text, err, x.problem)
			}
			continue
		}
		if err != nil || !reflect.DeepEqual(got, x.want) {
			t.Errorf("%s, %s: got %v, %v, want %v", x.decl, x.text, got, err, x.want)
			continue
		}
		if _, ok, err := s.Find(context.Background(), got, noon); ok || err != nil {
			t.Errorf("%s, %s: found in an empty table: %v, %v", x.decl, x.text, ok, err)
		}
		f.exec("INSERT INTO BACKLOG (k, status, date_inserted) VALUES (?, 'NEW', '2026-02-10 11:00:00')", got.Part(0))
		if got.Len() == 2 {
			f.exec("UPDATE BACKLOG SET l = ?", got.Part(1))
		}
		if row, ok, err := s.Find(context.Background(), got, noon); !ok || err != nil || !reflect.DeepEqual(row.Key, got) {
			t.Errorf("%s, %s: Find: got %v, %v, %v", x.decl, x.text, row.Key, ok, err)
		}
	}
}

// retryRows is a table with records of every kind, that of a planned policy
// with 3 retries.
const retryRows = `CREATE TABLE BACKLOG (id INTEGER PRIMARY KEY, status TEXT, date_inserted TEXT, failures INTEGER, last_failure TEXT, next_try TEXT, in_retry BOOLEAN, queue TEXT);
	INSERT INTO BACKLOG VALUES
	(1, 'NEW', '2026-02-10 11:00:00', NULL, NULL, NULL, NULL, 'a'),
	(2, 'ERROR', '2026-02-10 10:00:00', 2, '2026-02-10 11:00:00', '2026-02-10 12:30:00', 1, 'a'),
	(3, 'ERROR', '2026-02-01 10:00:00', 4, '2026-02-01 11:00:00', NULL, 0, 'a'),
	(4, 'SUCCESS', '2026-02-01 10:00:00', 2, '2026-02-01 11:00:00', NULL, 0, 'a'),
	(5, 'DEAD', '2026-02-01 10:00:00', 4, '2026-02-01 11:00:00', NULL, 0, 'a'),
	(6, 'HELD', '2026-02-01 10:00:00', 4, '2026-02-01 11:00:00', NULL, 0, 'a'),
	(7, 'ERROR', NULL, 1, NULL, NULL, 1, 'a'),
	(8, 'ERROR', 'yesterday', 1, NULL, NULL, 1, 'a'),
	(9, 'DEAD', '2026-02-10 10:00:00', 1, '2026-02-10 11:00:00', NULL, 0, 'b'),
	(10, NULL, '2026-02-10 10:00:00', 1, '2026-02-10 11:00:00', NULL, 0, 'a')`

func retryRowsMapping() mapping.Mapping {
	m := retryMapping(planning(3, time.Minute))
	m.Dead = is(text("DEAD"))
	m.Where = []mapping.Condition{cond("queue", text("a"))}
	return m
}

func TestFind(t *testing.T) {
	f := newFile(t, retryRows)
	s := f.store(retryRowsMapping())
	hour := func(day, h int) time.Time { return time.Date(2026, 2, day, h, 0, 0, 0, time.UTC) }
	for _, x := range []struct {
		id       int64
		standing backlog.RowState
		status   string
		retry    backlog.Memory
		filtered bool
		noDate   string
		wrong    string
	}{
		{1, backlog.RowNew, "NEW", backlog.Memory{}, false, "", ""},
		{2, backlog.RowError, "ERROR", backlog.Memory{Failures: 2, LastFailure: hour(10, 11), Next: hour(10, 12).Add(30 * time.Minute)}, false, "", ""},
		{3, backlog.RowError, "ERROR", backlog.Memory{Failures: 4, LastFailure: hour(1, 11)}, false, "", ""},
		{4, backlog.RowSuccess, "SUCCESS", backlog.Memory{Failures: 2, LastFailure: hour(1, 11)}, false, "", ""},
		{5, backlog.RowDead, "DEAD", backlog.Memory{Failures: 4, LastFailure: hour(1, 11)}, false, "", ""},
		{6, backlog.RowOther, "HELD", backlog.Memory{Failures: 4, LastFailure: hour(1, 11)}, false, "", ""},
		{7, backlog.RowError, "ERROR", backlog.Memory{Failures: 1}, false, "skip", ""},
		{8, backlog.RowError, "ERROR", backlog.Memory{Failures: 1}, false, "", "yesterday"},
		{9, backlog.RowDead, "DEAD", backlog.Memory{Failures: 1, LastFailure: hour(10, 11)}, true, "", ""},
		{10, backlog.RowOther, "", backlog.Memory{Failures: 1, LastFailure: hour(10, 11)}, false, "", ""},
	} {
		row, ok, err := s.Find(context.Background(), backlog.NewKey(x.id), noon)
		if !ok || err != nil {
			t.Errorf("row %d: got %v, %v", x.id, ok, err)
			continue
		}
		what := fmt.Sprintf("row %d: ", x.id)
		testkit.Equal(t, what+"state", row.State, x.standing)
		testkit.Equal(t, what+"status", row.Status, x.status)
		testkit.Equal(t, what+"it is filtered", row.Filtered, x.filtered)
		if !reflect.DeepEqual(row.Memory, &x.retry) {
			t.Errorf("%smemory: got %+v, want %+v", what, row.Memory, x.retry)
		}
		if row.Inserted.IsZero() && x.wrong == "" && row.NoDate != x.noDate {
			t.Errorf("row %d: NoDate is %q, want %q", x.id, row.NoDate, x.noDate)
		}
		if got := row.Unreadable; (got != nil) != (x.wrong != "") || got != nil && !strings.Contains(got.Error(), x.wrong) {
			t.Errorf("row %d: Unreadable is %v, want %q", x.id, got, x.wrong)
		}
		if v, ok := row.Column("queue"); !ok || v == nil {
			t.Errorf("row %d: column queue is %v, %v", x.id, v, ok)
		}
	}
	if _, ok, err := s.Find(context.Background(), backlog.NewKey(int64(99)), noon); ok || err != nil {
		t.Errorf("no such row: got %v, %v", ok, err)
	}
}

// TestFindWithoutStatus tells the states by their conditions.
func TestFindWithoutStatus(t *testing.T) {
	f := newFile(t, tasks)
	m := tasksMapping()
	m.Success.When = []mapping.Condition{cond("done", text("true"))}
	s := f.store(m)
	for id, want := range []string{1: "new", 2: "new", 3: "success", 4: "error", 7: "error", 8: "error"} {
		if want == "" {
			continue
		}
		row, ok, err := s.Find(context.Background(), backlog.NewKey(int64(id)), noon)
		if !ok || err != nil {
			t.Errorf("row %d: found %t, %v", id, ok, err)
		}
		testkit.Equal(t, fmt.Sprintf("row %d: status", id), row.Status, want)
		testkit.Equal(t, fmt.Sprintf("row %d: state", id), row.State.String(), want)
		if wantNo := map[bool]string{true: "newest", false: "skip"}[row.Inserted.IsZero()]; row.NoDate != wantNo {
			t.Errorf("row %d: NoDate is %q, want %q", id, row.NoDate, wantNo)
		}
	}
}

func TestReset(t *testing.T) {
	id := func(list ...int64) (keys []backlog.Key) {
		for _, n := range list {
			keys = append(keys, backlog.NewKey(n))
		}
		return keys
	}
	for _, x := range []struct {
		name string
		sel  table.Filter
		want string // the rows that are new afterwards, but for 1
	}{
		{"all", table.Filter{}, "2 3 5 7 8"},
		{"keys", table.Filter{Keys: id(1, 2, 4, 5, 6, 9, 99)}, "2 5"},
		{"status", table.Filter{Status: "DEAD"}, "5"},
		{"failed ones", table.Filter{Status: "ERROR"}, "2 3 7 8"},
		{"a status that is none of them", table.Filter{Status: "SUCCESS"}, ""},
		{"held ones", table.Filter{Status: "HELD"}, ""},
		{"before", table.Filter{Before: noon.Add(-day)}, "3 5"},
		{"before, to the second", table.Filter{Before: noon.Add(-2 * time.Hour)}, "3 5"},
		{"status and before", table.Filter{Status: "ERROR", Before: noon.Add(-2*time.Hour + time.Second)}, "2 3"},
		{"keys and status", table.Filter{Status: "ERROR", Keys: id(3, 5)}, "3"},
	} {
		f := newFile(t, retryRows)
		s := f.store(retryRowsMapping())
		want := strings.Fields(x.want)
		if n, _, err := s.CountSelected(context.Background(), x.sel, inspect.Requeued, noon, noon); n != len(want) || err != nil {
			t.Errorf("%s: CountSelected: got %d, %v, want %d", x.name, n, err, len(want))
		}
		others := "SELECT * FROM BACKLOG WHERE id NOT IN (0" + strings.Join(append([]string{""}, want...), ", ") + ")"
		before := f.rows(others)
		for _, n := range []int{len(want), 0} {
			if got, err := s.Requeue(context.Background(), x.sel, noon, unrefused(t)); got != n || err != nil {
				t.Errorf("%s: Reset: got %d, %v, want %d", x.name, got, err, n)
			}
		}
		f.wantRows(others, before...)
		var rows []string
		for _, n := range want {
			rows = append(rows, n+" 'NEW' 0 NULL 0 'a'")
		}
		f.wantRows("SELECT id, status, failures, next_try, in_retry, queue FROM BACKLOG WHERE status = 'NEW' AND id > 1", rows...)
		f.wantRows("SELECT last_failure FROM BACKLOG WHERE id = 2", "'2026-02-10 11:00:00'")
	}
}

// TestResetOfMany goes beyond a group, with text keys and a touched column.
func TestResetOfMany(t *testing.T) {
	f := newFile(t, `CREATE TABLE BACKLOG (tenant TEXT, n INT, status TEXT, date_inserted TEXT, saved TEXT, PRIMARY KEY (tenant, n));
		WITH RECURSIVE s(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM s WHERE i < 1501)
		INSERT INTO BACKLOG SELECT 't' || i % 3, i, CASE WHEN i = 7 THEN 'SUCCESS' ELSE 'ERROR' END, '2026-02-10 11:00:00', NULL FROM s`)
	m := plainMapping()
	m.ID, m.Touch = []string{"tenant", "n"}, []mapping.Assignment{set("saved", text("now"))}
	s := f.store(m)
	if n, err := s.Requeue(context.Background(), table.Filter{}, noon, unrefused(t)); n != 1500 || err != nil {
		t.Errorf("got %d, %v, want 1500", n, err)
	}
	f.wantRows("SELECT status, saved, count(*) FROM BACKLOG GROUP BY 1, 2", "'NEW' '2026-02-10 12:00:00' 1500", "'SUCCESS' NULL 1")
}

// TestResetOfConditions: what makes a record new is what its condition says.
func TestResetOfConditions(t *testing.T) {
	f := newFile(t, tasks)
	s := f.store(tasksMapping())
	if n, err := s.Requeue(context.Background(), table.Filter{}, noon, unrefused(t)); n != 5 || err != nil {
		t.Errorf("got %d, %v, want 5", n, err)
	}
	f.wantRows("SELECT id, done, attempts FROM tasks", "1 0 NULL", "2 0 0", "3 1 7", "4 0 0", "5 0 0", "6 0 0", "7 0 0", "8 0 0")
	f.wantRows("SELECT updated_at FROM tasks WHERE id = 4", "'2026-02-10 11:00:00'")

	f = newFile(t, `CREATE TABLE jobs (id INTEGER PRIMARY KEY, at TEXT, processed BOOLEAN, failed BOOLEAN, died TEXT);
		INSERT INTO jobs VALUES (1, '2026-02-10 01:00:00', 0, 0, NULL), (2, '2026-02-10 02:00:00', 0, 1, NULL), (3, '2026-02-10 03:00:00', 1, 0, NULL),
		(4, '2026-02-10 04:00:00', 1, 1, NULL), (5, '2026-02-10 04:00:00', 0, 1, 'dead')`)
	state := func(failed string, died mapping.Value) mapping.State {
		return mapping.State{
			When: []mapping.Condition{cond("processed", text("0")), cond("failed", text(failed)), cond("died", died)},
			Set:  []mapping.Assignment{set("failed", text(failed)), set("died", died)},
		}
	}
	m := mapping.Mapping{
		Name: "jobs", ID: []string{"id"}, Inserted: mapping.Time{Column: "at"},
		New: state("0", null), Error: state("1", null), Dead: state("1", text("dead")),
		Success: mapping.State{Set: []mapping.Assignment{set("processed", text("1"))}},
	}
	s = f.store(m)
	for status, want := range map[string]int{"error": 1, "dead": 1, "": 2} {
		if n, _, err := s.CountSelected(context.Background(), table.Filter{Status: status}, inspect.Requeued, noon, noon); n != want || err != nil {
			t.Errorf("status %q: got %d, %v, want %d", status, n, err, want)
		}
	}
	if n, err := s.Requeue(context.Background(), table.Filter{}, noon, unrefused(t)); n != 2 || err != nil {
		t.Errorf("got %d, %v, want 2", n, err)
	}
	f.wantRows("SELECT id, processed, failed, died FROM jobs", "1 0 0 NULL", "2 0 0 NULL", "3 1 0 NULL", "4 1 1 NULL", "5 0 0 NULL")
}
