package table_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
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

// onEach runs the test on each kind of database.
func onEach(t *testing.T, f func(t *testing.T, d testDatabase)) {
	for name, d := range map[string]testDatabase{"sqlite": onSQLite, "postgres": onPostgres, "mysql": onMySQL} {
		t.Run(name, func(t *testing.T) { f(t, d) })
	}
}

// listTable makes a table of random rows with a key of two columns, many of one time and
// some without one, and a policy of 3 retries.
func listTable(t *testing.T, d testDatabase) *table.Table {
	t.Helper()
	plain, url := d.open(t)
	t.Cleanup(func() { plain.Close() })
	random := rand.New(rand.NewPCG(1, 2))
	pick := func(list ...string) string { return list[random.IntN(len(list))] }
	rows := make([]string, 700)
	for i := range rows {
		at := "NULL"
		if random.IntN(10) > 0 {
			at = noon.Add(-time.Duration(random.IntN(40)*random.IntN(40)) * time.Hour).Format("'2006-01-02 15:04:05'")
		}
		if random.IntN(50) == 0 {
			at = "'2031-01-01 00:00:00'"
		}
		rows[i] = fmt.Sprintf("(%s, %d, %s, %s, %s, '2026-02-10 11:00:00', %s, %s)", pick("'a'", "'B'", "'ü'"), i, pick("'NEW'", "'ERROR'", "'AGAIN'", "'DEAD'", "'SUCCESS'", "'HELD'", "NULL"), at,
			pick("NULL", "0", "1", "3", "4", "9"), pick("NULL", "'order 17 is locked'", "'order 4 is locked'", "'boom'"), pick("'mail'", "'fax'"))
	}
	for _, text := range []string{
		`CREATE TABLE jobs (tenant ` + d.textKey + `, n INTEGER, status VARCHAR(20), at TIMESTAMP NULL, failures INTEGER, last_failure TIMESTAMP NULL, err VARCHAR(200), queue VARCHAR(20), PRIMARY KEY (tenant, n))`,
		`INSERT INTO jobs VALUES ` + strings.Join(rows, ", "),
	} {
		if _, err := plain.Exec(d.sql(text)); err != nil {
			t.Fatal(err)
		}
	}
	db, err := openDB(context.Background(), url, table.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	tab, err := table.New(context.Background(), db, mapping.Mapping{
		Name: "jobs", ID: []string{"tenant", "n"}, Status: "status", Inserted: mapping.Time{Column: "at"}, LastError: "err", Attempts: "failures",
		New: is(text("NEW"), text("AGAIN")), Error: is(text("ERROR")), Success: is(text("SUCCESS")), Dead: is(text("DEAD")), Zone: time.UTC,
		Policy: retryColumns(waiting(3, time.Minute), "failures", "last_failure"), Where: []mapping.Condition{cond("queue", text("mail"))},
	})
	if err == nil {
		err = tab.Prove(context.Background(), noon)
	}
	if err != nil {
		t.Fatal(err)
	}
	return tab
}

var listAges = []time.Duration{day, 7 * day, 30 * day}

// listed returns the rows of a filter, so many at a time.
func listed(t *testing.T, tab *table.Table, f table.Filter, limit int) (rows []inspect.Row) {
	t.Helper()
	f.Ages = listAges
	for after, i := (backlog.Cursor{}), 0; i == 0 || !after.IsZero(); i++ {
		page, err := tab.List(context.Background(), f, noon, after, limit)
		if err != nil || len(page.Rows) > limit {
			t.Fatalf("%+v: %d rows, %v", f, len(page.Rows), err)
		}
		rows, after = append(rows, page.Rows...), page.Next
	}
	return rows
}

// Rows come newest first, each once, whatever a page holds, and as many as are counted.
func TestList(t *testing.T) {
	onEach(t, func(t *testing.T, d testDatabase) {
		tab := listTable(t, d)
		all := listed(t, tab, table.Filter{}, 1000)
		seen := make(map[uint64]bool)
		for i, row := range all {
			if seen[row.Key.Hash()] || row.State != backlog.RowNew && row.State != backlog.RowError {
				t.Errorf("%v is listed twice, or %v", row.Key, row.State)
			}
			seen[row.Key.Hash()] = true
			if i > 0 && row.Inserted.After(all[i-1].Inserted) {
				t.Errorf("%v comes behind %v", row.Inserted, all[i-1].Inserted)
			}
		}
		for _, limit := range []int{1, 7} {
			if got := listed(t, tab, table.Filter{}, limit); !slices.EqualFunc(got, all, func(a, b inspect.Row) bool { return a.Key.Compare(b.Key) == 0 }) {
				t.Errorf("pages of %d have %d rows, not the %d of one", limit, len(got), len(all))
			}
		}
		c, err := tab.Count(context.Background(), noon, listAges)
		if err != nil || c.Pending() != len(all) {
			t.Errorf("%d are pending, %d listed, %v", c.Pending(), len(all), err)
		}
		for i, b := range append(c.Bands, c.Beyond) {
			for state, want := range map[string]int{"fresh": b.Fresh, "failed": b.Failed, "": b.Fresh + b.Failed} {
				if got := listed(t, tab, table.Filter{Band: i + 1, State: state}, 50); len(got) != want || want == 0 {
					t.Errorf("band %d, %q: %d are listed, %d counted", i+1, state, len(got), want)
				}
			}
		}
		for state, want := range map[string]int{"unreadable": c.Unreadable, "exhausted": c.Exhausted, "dead": c.ByStatus["DEAD"]} {
			got := listed(t, tab, table.Filter{State: state}, 50)
			if len(got) != want || want == 0 {
				t.Errorf("%s: %d are listed, %d counted", state, len(got), want)
			}
			if state != "unreadable" {
				continue
			}
			for _, row := range got {
				dateless := row.NoDate == "skip" && row.Inserted.IsZero()
				if row.Unreadable == nil && !dateless {
					t.Errorf("%v is listed as unreadable, but was inserted at %v", row.Key, row.Inserted)
				}
			}
		}
	})
}

// What a row tells of its attempts is listed; a cause is a part of the error that only the
// program knows.
func TestListOfCauses(t *testing.T) {
	onEach(t, func(t *testing.T, d testDatabase) {
		tab := listTable(t, d)
		causes := make(map[string]int)
		weekAgo := noon.Add(-7 * day)
		oldFailed, oldLocked := 0, 0
		for _, row := range listed(t, tab, table.Filter{State: "failed"}, 1000) {
			if isOld := !row.Inserted.IsZero() && row.Inserted.Before(weekAgo); isOld {
				oldFailed++
				if row.LastError != nil && strings.HasSuffix(*row.LastError, "is locked") {
					oldLocked++
				}
			}
			if row.Attempts == nil || *row.Attempts != row.Memory.Failures {
				t.Errorf("%v: attempts are %v", row.Key, row.Attempts)
			}
			if row.LastError != nil {
				causes[*row.LastError]++
			}
		}
		if len(causes) != 3 {
			t.Errorf("causes: %v", causes)
		}
		locked := table.Filter{State: "failed", Cause: func(text string) bool { return strings.HasSuffix(text, "is locked") }}
		if got, want := listed(t, tab, locked, 3), len(listed(t, tab, table.Filter{State: "failed"}, 50))-causes["boom"]; len(got) == 0 || len(got) >= want {
			t.Errorf("%d are locked", len(got))
		}
		want := causes["order 17 is locked"] + causes["order 4 is locked"]
		n, old, err := tab.CountSelected(context.Background(), locked, inspect.Requeued, noon, weekAgo)
		if err != nil {
			t.Errorf("CountSelected: %v", err)
		}
		testkit.Equal(t, "chosen", n, want)
		testkit.Equal(t, "old ones of them", old, oldLocked)
		_, old, err = tab.CountSelected(context.Background(), table.Filter{State: "failed"}, inspect.Requeued, noon, weekAgo)
		if err != nil {
			t.Errorf("CountSelected: %v", err)
		}
		testkit.Equal(t, "old ones of all that failed", old, oldFailed)
		n, _, err = tab.CountSelected(context.Background(), table.Filter{State: "failed", Limit: 5}, inspect.Requeued, noon, weekAgo)
		if err != nil {
			t.Errorf("CountSelected: %v", err)
		}
		testkit.Equal(t, "chosen of at most five", n, 5)
		locked.Limit = 5
		for left := want; left > 0; left -= 5 {
			if got, err := tab.Requeue(context.Background(), locked, noon, unrefused(t)); got != min(left, 5) || err != nil {
				t.Fatalf("%d are new, %v, want %d", got, err, min(left, 5))
			}
		}
		if got := listed(t, tab, table.Filter{State: "failed"}, 50); len(got) == 0 || slices.ContainsFunc(got, func(r inspect.Row) bool { return r.LastError != nil && *r.LastError != "boom" }) {
			t.Errorf("%d have failed still, some of them locked", len(got))
		}
	})
}

// Discarded records are dead and told of, but for those of which nobody could be told.
func TestDiscard(t *testing.T) {
	onEach(t, func(t *testing.T, d testDatabase) {
		tab := listTable(t, d)
		dead, failed := len(listed(t, tab, table.Filter{State: "dead"}, 50)), listed(t, tab, table.Filter{State: "failed"}, 50)
		f := table.Filter{State: "failed", Limit: 10}
		told := make(map[uint64]string)
		n, err := tab.Discard(context.Background(), f, noon, table.Discarding{BeforeDeath: func(r *inspect.Row) (bool, error) {
			told[r.Key.Hash()] = r.Status
			if r.LastError != nil {
				told[r.Key.Hash()] += *r.LastError
			}
			return len(told)%2 != 0, nil
		}})
		if n != 5 || len(told) != 10 || err != nil {
			t.Errorf("%d are discarded, %d told of, %v", n, len(told), err)
		}
		for _, row := range failed {
			text, is := told[row.Key.Hash()]
			if row.LastError != nil && is && text != "ERROR"+*row.LastError {
				t.Errorf("told of %q, %q", text, *row.LastError)
			}
		}
		wrong, calls := errors.New("the table takes none"), 0
		n, err = tab.Discard(context.Background(), table.Filter{}, noon, table.Discarding{BeforeDeath: func(*inspect.Row) (bool, error) { calls++; return false, wrong }})
		if n != 0 || calls != 1 || err != wrong {
			t.Errorf("%d are discarded, %d told of behind the error %v", n, calls, err)
		}
		if n, err := tab.Discard(context.Background(), table.Filter{}, noon, table.Discarding{}); n == 0 || err != nil {
			t.Errorf("%d are discarded, %v", n, err)
		}
		c, err := tab.Count(context.Background(), noon, listAges)
		if err != nil {
			t.Errorf("Count: %v", err)
		}
		testkit.Equal(t, "pending", c.Pending(), 0)
		testkit.Equal(t, "exhausted", c.Exhausted, 0)
		if c.ByStatus["DEAD"] <= dead+5 {
			t.Errorf("%d are dead, want more than %d", c.ByStatus["DEAD"], dead+5)
		}
		if c.ByStatus["SUCCESS"] == 0 {
			t.Errorf("no success is left: %v", c.ByStatus)
		}
	})
}

// The states of the refresh policy and of a table without a status column are listed, too.
func TestListOfStates(t *testing.T) {
	f := newFile(t, tasks)
	tab := f.store(tasksMapping())
	for state, want := range map[string]string{"": "2 1 8 6 5 4 7", "fresh": "2 1", "failed": "8 6 5 4 7", "dead": "", "exhausted": ""} {
		var got []string
		for _, row := range listed(t, tab, table.Filter{State: state}, 100) {
			got = append(got, row.Key.String())
		}
		slices.Sort(got)
		list := strings.Fields(want)
		slices.Sort(list)
		if !slices.Equal(got, list) {
			t.Errorf("%q: %v, want %v", state, got, list)
		}
	}
}

// A page of large rows ends early: memory is bounded, whatever the limit.
func TestListIsBounded(t *testing.T) {
	f := newFile(t, `CREATE TABLE BACKLOG (id INTEGER PRIMARY KEY, status TEXT, date_inserted TEXT, err TEXT);
		WITH RECURSIVE s(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM s WHERE i < 12000)
		INSERT INTO BACKLOG SELECT i, 'ERROR', '2026-02-10 11:00:00', CASE WHEN i > 10000 THEN printf('%10000c', 'x') END FROM s`)
	m := plainMapping()
	m.LastError = "err"
	tab := f.store(m)
	n, want := 0, int64(12000)
	for after, i := (backlog.Cursor{}), 0; i == 0 || !after.IsZero(); i++ {
		page, err := tab.List(context.Background(), table.Filter{}, noon, after, 1_000_000)
		if err != nil {
			t.Fatal(err)
		}
		size := 0
		for _, row := range page.Rows {
			if row.Key.Part(0) != want {
				t.Fatalf("%v, want %d", row.Key, want)
			}
			want--
			if row.LastError != nil {
				size += len(*row.LastError)
			}
		}
		if n += len(page.Rows); len(page.Rows) > 5000 || size > 5<<20 {
			t.Errorf("a page has %d rows of %d bytes", len(page.Rows), size)
		}
		after = page.Next
	}
	if n != 12000 {
		t.Errorf("%d rows are listed", n)
	}
}
