package table_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"backlog/backlog"
	"backlog/backlog/inspect"
	"backlog/backlog/mapping"
	"backlog/backlog/table"
	"backlog/backlog/table/db"
	"backlog/backlog/table/doctor"
	"backlog/internal/testkit"
)

// refreshMapping is a mapping for the refresh policy, which names these of its columns.
func refreshMapping(named ...int) mapping.Mapping {
	m := mapping.Mapping{Name: "banner", ID: []string{"id"}, Policy: &mapping.PolicyColumns{Refresh: make(mapping.Names, len(mapping.RefreshColumns))}}
	for i, name := range mapping.RefreshColumns {
		m.Policy.Refresh[i][1] = name
	}
	for _, i := range named {
		m.Policy.Refresh[i][0] = mapping.RefreshColumns[i]
	}
	return m
}

// proved returns the table once it is proved.
func proved(tb testing.TB, t *table.Table) *table.Table {
	tb.Helper()
	err := t.Prove(context.Background(), noon)
	if err != nil {
		tb.Fatal(err)
	}
	return t
}

// dueRecord returns the only record that is due at noon.
func dueRecord(tb testing.TB, s backlog.Store) *backlog.Record {
	tb.Helper()
	var list []backlog.Record
	for _, lane := range []backlog.Lane{backlog.Fresh, backlog.Failed} {
		p, err := s.Pending(context.Background(), backlog.Query{Lane: lane, Now: noon, Limit: 10})
		if err != nil || len(p.Unreadable) > 0 {
			tb.Fatal(err, p.Unreadable)
		}
		list = append(list, p.Records...)
	}
	if len(list) != 1 {
		tb.Fatalf("%d records are due, want 1", len(list))
	}
	return &list[0]
}

// started is the start of an attempt at noon, whose next start is when it ends.
func started(r *backlog.Record) backlog.Settlement {
	next := *r.Memory
	next.UID, next.Started, next.Deadline, next.Next, next.AttemptNo = strings.Repeat("a1", 16), noon, noon.Add(time.Hour), noon.Add(time.Hour), next.AttemptNo+1
	return backlog.Settlement{Record: r, Memory: &next, At: noon}
}

// endedIn is the end of the attempt that the record tells of.
func endedIn(r *backlog.Record, target backlog.RowState, next backlog.Memory) backlog.Settlement {
	return backlog.Settlement{Record: r, Target: target, Memory: &next, At: noon.Add(time.Minute), Error: "it failed"}
}

// wantWritten checks that all of a group is written, or all is conflicts.
func wantWritten(tb testing.TB, what string, written bool, left []backlog.Unsettled, err error) {
	tb.Helper()
	conflict := len(left) > 0 && errors.Is(left[0].Err, backlog.ErrConflict)
	if err != nil || written != (len(left) == 0) || conflict == written {
		tb.Errorf("%s: want it written: %t, got %v, %v", what, written, left, err)
	}
}

// TestRefreshCreate makes the table from nothing, and an index for each of the queries.
func TestRefreshCreate(t *testing.T) {
	f := newFile(t, "")
	ctx, m := context.Background(), refreshMapping()
	m.Columns, m.Policy.Rule = []string{"url"}, "rule"
	steps, err := missing(ctx, "sqlite:"+f.path, m, noon)
	want := []string{`CREATE TABLE IF NOT EXISTS "banner" (
  "id" INTEGER PRIMARY KEY,
  "refresh_at" TEXT,
  "attempt_no" INTEGER NOT NULL DEFAULT 0,
  "deadline_at" TEXT,
  "attempt_uid" TEXT,
  "started_at" TEXT,
  "disabled" INTEGER NOT NULL DEFAULT 0,
  "disabled_reason" TEXT,
  "failing_since" TEXT,
  "rule" TEXT,
  "url" TEXT
)`,
		`CREATE INDEX IF NOT EXISTS "banner_backlog_4cfd34cd" ON "banner" ("refresh_at", "id") WHERE "refresh_at" IS NOT NULL AND ("deadline_at" IS NULL OR "attempt_uid" IS NULL) AND "disabled" = 0`,
		`CREATE INDEX IF NOT EXISTS "banner_backlog_9f603d11" ON "banner" ("deadline_at", "id") WHERE "deadline_at" IS NOT NULL AND "attempt_uid" IS NOT NULL`}
	if got := strings.Join(steps, "\n"); err != nil || got != strings.Join(want, "\n") {
		t.Fatalf("got %s, %v\nwant %s", got, err, strings.Join(want, "\n"))
	}
	for range 2 {
		if err := create(ctx, "sqlite:"+f.path, steps); err != nil {
			t.Fatal(err)
		}
	}
	if steps, err := missing(ctx, "sqlite:"+f.path, m, noon); len(steps) > 0 || err != nil {
		t.Errorf("missing after init: %q, %v", steps, err)
	}
	f.exec("INSERT INTO banner (refresh_at, url) VALUES ('2026-02-10 12:00:00', 'a'), (NULL, 'b')")
	tab := f.store(m)
	wantGoodPlans(t, "created from nothing", tab)
	for _, r := range tab.PassQueries(noon) {
		steps, err := db.QueryRows(ctx, f.plain, "EXPLAIN QUERY PLAN "+strings.ReplaceAll(r.Query, "?", "9"))
		if err != nil {
			t.Fatal(err)
		}
		plan, name := fmt.Sprint(steps), "banner_backlog_4cfd34cd"
		if strings.HasPrefix(r.What, "running attempts") {
			name = "banner_backlog_9f603d11"
		}
		if !strings.Contains(plan, name) || strings.Contains(plan, "TEMP B-TREE") {
			t.Errorf("%s: want it answered by %s in order, got %s", r.What, name, plan)
		}
	}
	s := proved(t, tab)
	r := dueRecord(t, s)
	left, err := s.Begin(ctx, []backlog.Settlement{started(r)})
	wantWritten(t, "a start", true, left, err)
	f.wantRows("SELECT refresh_at, attempt_no, deadline_at, attempt_uid, started_at, disabled, disabled_reason FROM banner WHERE id = 1",
		"'2026-02-10 13:00:00' 1 '2026-02-10 13:00:00' '"+strings.Repeat("a1", 16)+"' '2026-02-10 12:00:00' 0 NULL")
}

// TestRefreshMissingColumns: init adds all columns to a table that has none of them, and
// those that have a name to others. What nobody has named may be missing.
func TestRefreshMissingColumns(t *testing.T) {
	add := func(column string) string { return `ALTER TABLE "banner" ADD COLUMN "` + column + `" ` }
	for _, x := range []struct {
		have    string
		m       mapping.Mapping
		problem string // of the table as it is
		adds    []string
	}{
		{"", refreshMapping(), "refresh_at", []string{add("attempt_no") + "INTEGER NOT NULL DEFAULT 0", add("deadline_at") + "TEXT", add("attempt_uid") + "TEXT",
			add("started_at") + "TEXT", add("disabled") + "INTEGER NOT NULL DEFAULT 0", add("disabled_reason") + "TEXT", add("failing_since") + "TEXT", add("refresh_at") + "TEXT"}},
		{", refresh_at INTEGER", refreshMapping(mapping.FailingSince, mapping.AttemptUID), "attempt_no",
			[]string{add("attempt_no") + "INTEGER NOT NULL DEFAULT 0", add("attempt_uid") + "TEXT", add("failing_since") + "INTEGER"}},
		{", refresh_at INTEGER, attempt_no INTEGER", refreshMapping(mapping.DeadlineAt), "deadline_at", []string{add("deadline_at") + "INTEGER"}},
		{", refresh_at INTEGER, attempt_no INTEGER", refreshMapping(), "", nil},
	} {
		f := newFile(t, "CREATE TABLE banner (id INTEGER PRIMARY KEY"+x.have+")")
		_, err := f.open(x.m)
		if want := fmt.Sprintf("policy: table banner has no column %q; `backlog init` adds it", x.problem); x.problem != "" && (err == nil || !strings.HasPrefix(err.Error(), want)) {
			t.Errorf("banner%s: got %v, want %s", x.have, err, want)
		} else if x.problem == "" && err != nil {
			t.Errorf("banner%s: %v", x.have, err)
		}
		steps, err := missing(context.Background(), "sqlite:"+f.path, x.m, noon)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := strings.Join(steps, "\n"), strings.Join(x.adds, "\n"); !strings.HasPrefix(got, want) || strings.Count(got, "ALTER") != len(x.adds) || !strings.Contains(got, "CREATE INDEX") {
			t.Errorf("banner%s: init runs\n%s\nwant indexes and\n%s", x.have, got, want)
		}
		for i := range steps { // it may be stopped after any of them, and run again
			if left, err := missing(context.Background(), "sqlite:"+f.path, x.m, noon); err != nil || !slices.Equal(left, steps[i:]) {
				t.Errorf("banner%s: after %d of %d statements init runs %q, %v", x.have, i, len(steps), left, err)
			}
			if err := create(context.Background(), "sqlite:"+f.path, steps[i:i+1]); err != nil {
				t.Error(err)
			}
		}
		wantGoodPlans(t, x.have, f.store(x.m))
	}
}

// TestRefreshRefused: columns that cannot say what they have to.
func TestRefreshRefused(t *testing.T) {
	rule := refreshMapping()
	rule.Policy.Rule = "rule"
	for columns, want := range map[string]string{
		"refresh_at TEXT, attempt_no TEXT":                        "policy: column attempt_no is TEXT, which cannot count attempts; name a column of whole numbers",
		"refresh_at TEXT NOT NULL, attempt_no INT":                "policy: column refresh_at is TEXT NOT NULL, and NULL is what it has to say; let it be NULL",
		"refresh_at TEXT, attempt_no INT, attempt_uid CHAR(20)":   "policy: column attempt_uid is CHAR(20), which cannot hold the token of an attempt; name a column of texts of 32 characters or more",
		"refresh_at TEXT, attempt_no INT, attempt_uid INTEGER":    "policy: column attempt_uid is INTEGER, which cannot hold the token of an attempt; name a column of texts of 32 characters or more",
		"refresh_at TEXT, attempt_no INT, disabled TEXT NOT NULL": "policy: column disabled is TEXT NOT NULL, and NULL is what it has to say; let it be NULL",
		"refresh_at TEXT, attempt_no INT AS (1)":                  "policy: column attempt_no is computed by the database and cannot be written; name another",
		"refresh_at TEXT, attempt_no INT, noRule INT":             "policy.refresh.rrule: table banner has no column \"rule\"; the columns are: id, refresh_at, attempt_no, noRule",
	} {
		m := refreshMapping()
		if strings.Contains(columns, "noRule") {
			m = rule
		}
		newFile(t, "CREATE TABLE banner (id INTEGER PRIMARY KEY, "+columns+")").wantRefused(m, want)
	}
	date := newFile(t, "CREATE TABLE banner (id INTEGER PRIMARY KEY, refresh_at TEXT, attempt_no INT); INSERT INTO banner VALUES (1, '2026-02-10', 0)")
	date.wantRefused(refreshMapping(), "table banner: policy: column refresh_at holds times as text 2026-01-02 (no zone, read as UTC), which does not tell one second from the next: waits would be lost;"+
		" name another under columns: of the policy, which `backlog init` adds")
}

// TestDisabledForms: how a row is disabled, found to be so, and enabled again.
func TestDisabledForms(t *testing.T) {
	for decl, x := range map[string]struct{ enabled, disabled, again string }{
		"BOOLEAN":                    {"NULL", "1", "0"},
		"INTEGER":                    {"NULL", "1", "0"},
		"INTEGER NOT NULL DEFAULT 0": {"0", "1", "0"},
		"DATETIME":                   {"NULL", "'2026-02-10 12:01:00'", "NULL"},
		"TEXT":                       {"NULL", "'2026-02-10 12:01:00'", "NULL"},
	} {
		t.Run(decl, func(t *testing.T) {
			ctx := context.Background()
			f := newFile(t, "CREATE TABLE banner (id INTEGER PRIMARY KEY, refresh_at TEXT, attempt_no INT, attempt_uid TEXT, deadline_at TEXT, disabled "+decl+", disabled_reason TEXT)")
			f.exec("INSERT INTO banner (id, refresh_at, disabled) VALUES (1, '2026-02-10 11:00:00', " + x.enabled + ")")
			tab := f.store(refreshMapping())
			s := proved(t, tab)
			r := dueRecord(t, s)
			left, err := s.Begin(ctx, []backlog.Settlement{started(r)})
			wantWritten(t, "a start", true, left, err)
			left, err = s.Settle(ctx, []backlog.Settlement{endedIn(r, backlog.RowDead, backlog.Memory{AttemptNo: 1, Disabled: true, Reason: "broken"})})
			wantWritten(t, "an end", true, left, err)
			f.wantRows("SELECT disabled, disabled_reason, attempt_uid, deadline_at FROM banner", x.disabled+" 'broken' NULL NULL")
			f.exec("UPDATE banner SET refresh_at = '2026-02-10 11:00:00'")
			if p, err := s.Pending(ctx, backlog.Query{Lane: backlog.Failed, Now: noon, Limit: 10}); len(p.Records) > 0 || err != nil {
				t.Errorf("a disabled record is due: %v, %v", p, err)
			}
			if got, err := s.CountAttempts(ctx); err != nil || !maps.Equal(got, map[string]int{"disabled": 1}) {
				t.Errorf("counts: %v, %v", got, err)
			}
			if n, err := tab.Requeue(ctx, table.Filter{}, noon, unrefused(t)); n != 1 || err != nil {
				t.Errorf("saved again: %d, %v", n, err)
			}
			f.wantRows("SELECT refresh_at, attempt_no, disabled, disabled_reason FROM banner", "'2026-02-10 12:00:00' 0 "+x.again+" NULL")
			dueRecord(t, s)
		})
	}
}

// TestRefreshWithTwoColumns: an attempt begins and ends in a table that has no others.
func TestRefreshWithTwoColumns(t *testing.T) {
	ctx := context.Background()
	f := newFile(t, "CREATE TABLE banner (id INTEGER PRIMARY KEY, refresh_at INTEGER, attempt_no INT); INSERT INTO banner VALUES (1, 1770721200, NULL)")
	s := proved(t, f.store(refreshMapping()))
	r := dueRecord(t, s)
	first := started(r)
	left, err := s.Begin(ctx, []backlog.Settlement{first})
	wantWritten(t, "a start", true, left, err)
	if r.Memory.UID != "" || !r.Memory.Deadline.IsZero() {
		t.Errorf("the record tells of %+v", r.Memory)
	}
	f.wantRows("SELECT * FROM banner", "1 1770728400 1")
	if list, err := s.Running(ctx, []string{first.Memory.UID}); len(list) > 0 || err != nil {
		t.Error(list, err)
	}
	if list, err := s.Overdue(ctx, noon.Add(day), backlog.Cursor{}, 10); len(list) > 0 || err != nil {
		t.Error(list, err)
	}
	left, err = s.Settle(ctx, []backlog.Settlement{endedIn(r, backlog.RowSuccess, backlog.Memory{Next: noon.Add(day)})})
	wantWritten(t, "an end", true, left, err)
	f.wantRows("SELECT * FROM banner", "1 1770811200 0")
}

// TestRefreshStates: what a row is doing, to people and in counts, and how any is saved
// again.
func TestRefreshStates(t *testing.T) {
	ctx := context.Background()
	f := newFile(t, `CREATE TABLE banner (id INTEGER PRIMARY KEY, refresh_at TEXT, attempt_no INT, deadline_at TEXT, attempt_uid TEXT, disabled INT, status TEXT, kind TEXT);
		INSERT INTO banner VALUES (1, '2026-02-10 18:00:00', 0, NULL, NULL, 0, 'x', 'a'), (2, '2026-02-10 13:00:00', 1, '2026-02-10 13:00:00', 'u', NULL, 'x', 'a'),
			(3, NULL, 7, NULL, NULL, 1, 'x', 'a'), (4, NULL, 0, NULL, NULL, NULL, 'x', 'a'), (5, '2026-02-10 11:00:00', 3, NULL, NULL, 0, 'x', 'a'), (6, '2026-02-10 11:00:00', 3, NULL, NULL, 0, 'x', 'b')`)
	m := refreshMapping()
	m.Status, m.New, m.Where = "status", mapping.Is("waits"), []mapping.Condition{cond("kind", text("a"))}
	tab := f.store(m)
	s := proved(t, tab)
	if got, err := s.CountAttempts(ctx); err != nil || !maps.Equal(got, map[string]int{"waiting": 2, "running": 1, "disabled": 1, "finished": 1}) {
		t.Errorf("counts: %v, %v", got, err)
	}
	var keys []backlog.Key
	for i, want := range []string{"waiting", "running", "disabled", "finished", "waiting"} {
		keys = append(keys, backlog.NewKey(int64(i+1)))
		row, ok, err := tab.Find(ctx, keys[i], noon)
		if !ok || err != nil || row.Unreadable != nil {
			t.Errorf("row %d: found %t, %v, unreadable: %v", i+1, ok, err, row.Unreadable)
		}
		testkit.Equal(t, fmt.Sprintf("row %d: state", i+1), inspect.State(row.Memory), want)
	}
	for state, want := range map[string]string{"waiting": "1 5", "running": "2", "disabled": "3", "finished": "4", "": "1 2 5"} {
		page, err := tab.List(ctx, table.Filter{State: state}, noon, backlog.Cursor{}, 10)
		var got []string
		for _, row := range page.Rows {
			got = append(got, row.Key.String())
		}
		if slices.Sort(got); strings.Join(got, " ") != want || err != nil {
			t.Errorf("%s: %v, %v, want %s", state, got, err, want)
		}
	}
	if n, _, err := tab.CountSelected(ctx, table.Filter{}, inspect.Requeued, noon, noon); n != 2 || err != nil {
		t.Errorf("disabled or failed: %d, %v", n, err)
	}
	if n, err := tab.Requeue(ctx, table.Filter{Keys: keys}, noon, unrefused(t)); n != 5 || err != nil {
		t.Errorf("saved again: %d, %v", n, err)
	}
	f.wantRows("SELECT DISTINCT refresh_at, attempt_no, deadline_at, attempt_uid, disabled, status FROM banner WHERE kind = 'a'", "'2026-02-10 12:00:00' 0 NULL NULL 0 'waits'")
	f.wantRows("SELECT * FROM banner WHERE kind = 'b'", "6 '2026-02-10 11:00:00' 3 NULL NULL 0 'x' 'b'")
}

// TestRefreshOfAnotherWhere: a row that has left the filter is nobody's.
func TestRefreshOfAnotherWhere(t *testing.T) {
	f := newFile(t, "CREATE TABLE banner (id INTEGER PRIMARY KEY, refresh_at TEXT, attempt_no INT, kind TEXT); INSERT INTO banner VALUES (1, '2026-02-10 11:00:00', 0, 'a')")
	m := refreshMapping()
	m.Where = []mapping.Condition{cond("kind", text("a"))}
	s := proved(t, f.store(m))
	r := dueRecord(t, s)
	f.exec("UPDATE banner SET kind = 'b'")
	left, err := s.Begin(context.Background(), []backlog.Settlement{started(r)})
	wantWritten(t, "a start", false, left, err)
}

// TestRefreshStepsDiffer: the deadline is rounded up further than the next start, which
// must not come before it: the row would seem to be saved.
func TestRefreshStepsDiffer(t *testing.T) {
	f := newFile(t, `CREATE TABLE banner (id INTEGER PRIMARY KEY, refresh_at TEXT, attempt_no INT, deadline_at TEXT);
		INSERT INTO banner VALUES (1, '2026-02-10 11:00:00.000', 0, NULL), (2, NULL, 1, '2026-02-10 23:00:00')`)
	s := proved(t, f.store(refreshMapping()))
	r := dueRecord(t, s)
	start := started(r)
	start.Memory.Deadline = start.Memory.Deadline.Add(time.Millisecond)
	start.Memory.Next = start.Memory.Deadline
	left, err := s.Begin(context.Background(), []backlog.Settlement{start})
	wantWritten(t, "a start", true, left, err)
	f.wantRows("SELECT refresh_at, deadline_at FROM banner WHERE id = 1", "'2026-02-10 13:00:01.000' '2026-02-10 13:00:01'")
}

// TestRefreshLostCommit: who does not know whether the end of an attempt is written makes
// the call again.
func TestRefreshLostCommit(t *testing.T) {
	f := newFile(t, `CREATE TABLE banner (id INTEGER PRIMARY KEY, refresh_at TEXT, attempt_no INT, deadline_at TEXT, attempt_uid TEXT); INSERT INTO banner VALUES (1, '2026-02-10 11:00:00', 0, NULL, NULL)`)
	s, other := proved(t, f.store(refreshMapping())), proved(t, f.store(refreshMapping()))
	r := dueRecord(t, s)
	r.AttemptID = "a"
	before := *r
	left, err := s.Begin(context.Background(), []backlog.Settlement{started(r)})
	wantWritten(t, "a start", true, left, err)
	left, err = s.Begin(context.Background(), []backlog.Settlement{started(&before)})
	wantWritten(t, "the start again, with the same token", true, left, err)

	group := []backlog.Settlement{endedIn(r, backlog.RowSuccess, backlog.Memory{Next: noon.Add(day)})}
	left, err = other.Settle(context.Background(), group)
	wantWritten(t, "what the lost commit wrote", true, left, err)
	r.Unsure = true
	left, err = s.Settle(context.Background(), group)
	wantWritten(t, "the call again", true, left, err)
	left, err = s.Settle(context.Background(), group)
	wantWritten(t, "the call without need", false, left, err)
}

// TestRefreshTried: starts and ends are tried on their rows, and undone.
func TestRefreshTried(t *testing.T) {
	for script, want := range map[string]string{
		"": "",
		"CREATE TRIGGER t AFTER UPDATE ON banner BEGIN UPDATE banner SET deadline_at = NULL WHERE id = new.id; END": "policy.refresh: with … a row of table banner is not as it was written; look at the triggers of the table, and at the types of the policy's columns",
		"CREATE TRIGGER t BEFORE UPDATE ON banner BEGIN SELECT RAISE(ABORT, 'no'); END":                             "policy.refresh: …",
		"CREATE TRIGGER t BEFORE UPDATE OF status ON banner BEGIN SELECT RAISE(ABORT, 'no'); END":                   "policy.refresh: …\"status\" = 'DONE'…",
	} {
		f := newFile(t, `CREATE TABLE banner (id INTEGER PRIMARY KEY, refresh_at TEXT, attempt_no INT, deadline_at TEXT, attempt_uid TEXT, status TEXT CHECK (status <> 'no'));
			INSERT INTO banner VALUES (1, '2026-02-10 11:00:00', 0, NULL, NULL, 'x');`+script)
		m := refreshMapping()
		m.Status, m.Success = "status", mapping.Is("DONE")
		s := proved(t, f.store(m))
		r := dueRecord(t, s)
		err := s.Try(context.Background(), started(r))
		if end := endedIn(r, backlog.RowSuccess, backlog.Memory{}); err == nil {
			err = s.Try(context.Background(), end)
		}
		wantProblemLike(t, script, err, want)
		f.wantRows("SELECT * FROM banner", "1 '2026-02-10 11:00:00' 0 NULL NULL 'x'")
		if err := s.Try(context.Background(), backlog.Settlement{Record: &backlog.Record{Key: backlog.NewKey(int64(9)), Memory: r.Memory}, Memory: started(r).Memory}); !errors.Is(err, backlog.ErrConflict) {
			t.Errorf("a row that is gone: %v", err)
		}
	}
}

// TestRefreshRefusedRows: where the database refuses a row, the others are written.
func TestRefreshRefusedRows(t *testing.T) {
	f := newFile(t, `CREATE TABLE banner (id INTEGER PRIMARY KEY, refresh_at TEXT, attempt_no INT, deadline_at TEXT, attempt_uid TEXT, CHECK (id <> 2 OR attempt_no = 0));
		INSERT INTO banner VALUES (1, '2026-02-10 11:00:00', 0, NULL, NULL), (2, '2026-02-10 11:00:00', 0, NULL, NULL), (3, '2026-02-10 11:00:00', 0, NULL, NULL)`)
	s := proved(t, f.store(refreshMapping()))
	p, err := s.Pending(context.Background(), backlog.Query{Now: noon, Limit: 10})
	if err != nil || len(p.Records) != 3 {
		t.Fatal(p, err)
	}
	var group []backlog.Settlement
	for i := range p.Records {
		group = append(group, started(&p.Records[i]))
	}
	left, err := s.Begin(context.Background(), group)
	if err != nil || len(left) != 1 {
		t.Fatalf("got %v, %v; want one row refused", left, err)
	}
	testkit.Equal(t, "place of the refused row", left[0].Index, 1)
	if errors.Is(left[0].Err, backlog.ErrConflict) {
		t.Errorf("got a conflict, want the row refused: %v", left[0].Err)
	}
	f.wantRows("SELECT id, attempt_no FROM banner", "1 1", "2 0", "3 1")
	for i, want := range []int{1, 0, 1} {
		if got := p.Records[i].Memory.AttemptNo; got != want {
			t.Errorf("record %d tells of attempt %d, want %d", i+1, got, want)
		}
	}
}

// TestRefreshNeedsItsMapping: a table that is mapped for another policy has no attempts.
func TestRefreshNeedsItsMapping(t *testing.T) {
	ctx := context.Background()
	f := newFile(t, "CREATE TABLE BACKLOG (id INTEGER PRIMARY KEY, status TEXT, date_inserted TEXT)")
	s := f.store(plainMapping())
	for what, call := range map[string]func() error{
		"Overdue":       func() error { _, err := s.Overdue(ctx, noon, backlog.Cursor{}, 10); return err },
		"Running":       func() error { _, err := s.Running(ctx, []string{"u"}); return err },
		"Begin":         func() error { _, err := s.Begin(ctx, []backlog.Settlement{{Record: new(backlog.Record)}}); return err },
		"CountAttempts": func() error { _, err := s.CountAttempts(ctx); return err },
	} {
		if err := call(); err == nil || !strings.Contains(err.Error(), "is not mapped for the refresh policy") {
			t.Errorf("%s: got %v", what, err)
		}
	}
}

// TestRefreshUIDRefused: what PostgreSQL has for text, but gives back in other words, or
// cuts off, is no column for tokens.
func TestRefreshUIDRefused(t *testing.T) {
	for _, decl := range []string{"uuid", "character varying(31)", "text", "character(32)"} {
		s := newPostgresSchema(t, "CREATE TABLE banner (id serial PRIMARY KEY, refresh_at timestamptz, attempt_no int, attempt_uid "+decl+")")
		d, err := openDB(context.Background(), s.url, table.Options{})
		if err != nil {
			t.Fatal(err)
		}
		_, err = table.New(context.Background(), d, refreshMapping())
		d.Close()
		got, want := "", ""
		if err != nil {
			got = err.Error()
		}
		if decl != "text" && decl != "character(32)" {
			want = "policy: column attempt_uid is " + decl + ", which cannot hold the token of an attempt; name a column of texts of 32 characters or more"
		}
		testkit.Equal(t, decl, got, want)
	}
}

// TestRefreshInit makes tables that attempts can begin and end in, on servers.
func TestRefreshInit(t *testing.T) {
	for name, open := range map[string]func(t *testing.T) (exec func(string), url string){
		"PostgreSQL": func(t *testing.T) (func(string), string) {
			s := newPostgresSchema(t)
			return func(text string) { s.exec(text) }, s.url
		},
		"MySQL": func(t *testing.T) (func(string), string) {
			plain, url := newMySQL(t)
			t.Cleanup(func() { plain.Close() })
			return func(text string) { execMySQL(t, plain, text) }, url
		},
	} {
		t.Run(name, func(t *testing.T) {
			exec, url := open(t)
			ctx, m := context.Background(), refreshMapping()
			for range 2 {
				steps, err := missing(ctx, url, m, noon)
				if err == nil {
					err = create(ctx, url, steps)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			if steps, err := missing(ctx, url, m, noon); len(steps) > 0 || err != nil {
				t.Errorf("missing after init: %q, %v", steps, err)
			}
			exec("INSERT INTO banner (refresh_at) VALUES ('2026-02-10 11:00:00')")
			d, err := openDB(ctx, url, table.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer d.Close()
			tab, err := table.New(ctx, d, m)
			if err != nil {
				t.Fatal(err)
			}
			wantGoodPlans(t, name, tab)
			if samples, err := doctor.Samples(ctx, tab, noon); len(samples) != 1 || err != nil {
				t.Errorf("samples: %q, %v", samples, err)
			}
			s := proved(t, tab)
			r := dueRecord(t, s)
			for _, trial := range []backlog.Settlement{started(r), endedIn(r, backlog.RowDead, backlog.Memory{Disabled: true, Reason: "x"})} {
				if err := s.Try(ctx, trial); err != nil {
					t.Error(err)
				}
			}
			left, err := s.Begin(ctx, []backlog.Settlement{started(r)})
			wantWritten(t, "a start", true, left, err)
			list, err := s.Overdue(ctx, noon.Add(2*time.Hour), backlog.Cursor{}, 10)
			if err != nil || len(list) != 1 {
				t.Fatal(list, err)
			}
			left, err = s.Settle(ctx, []backlog.Settlement{endedIn(&list[0], backlog.RowDead, backlog.Memory{AttemptNo: 1, Disabled: true, Reason: "x"})})
			wantWritten(t, "an end", true, left, err)
			if got, err := s.CountAttempts(ctx); err != nil || !maps.Equal(got, map[string]int{"disabled": 1}) {
				t.Errorf("counts: %v, %v", got, err)
			}
		})
	}
}

// TestRefreshStartAgain: who does not know whether a start is written makes the call
// again. What a user has saved since then stays.
func TestRefreshStartAgain(t *testing.T) {
	f := newFile(t, `CREATE TABLE banner (id INTEGER PRIMARY KEY, refresh_at TEXT, attempt_no INT, deadline_at TEXT, attempt_uid TEXT); INSERT INTO banner VALUES (1, '2026-02-10 11:00:00', 0, NULL, NULL)`)
	s := proved(t, f.store(refreshMapping()))
	r := dueRecord(t, s)
	before := *r
	left, err := s.Begin(t.Context(), []backlog.Settlement{started(r)})
	wantWritten(t, "a start", true, left, err)
	f.exec("UPDATE banner SET refresh_at = '2026-02-10 12:10:00', attempt_no = 0")
	left, err = s.Begin(t.Context(), []backlog.Settlement{started(&before)})
	wantWritten(t, "the start again, with the same token", true, left, err)
	f.wantRows("SELECT refresh_at, attempt_no, deadline_at FROM banner", "'2026-02-10 12:10:00' 0 '2026-02-10 13:00:00'")
}

// TestRefreshEmptyTimes: an empty text and a zero date are no time of a start, as NULL.
func TestRefreshEmptyTimes(t *testing.T) {
	f := newFile(t, `CREATE TABLE banner (id INTEGER PRIMARY KEY, refresh_at TEXT, attempt_no INT);
		INSERT INTO banner VALUES (1, '2026-02-10 11:00:00', 0), (2, '', 0), (3, '0000-00-00 00:00:00', 2), (4, NULL, 0)`)
	s := proved(t, f.store(refreshMapping()))
	if r := dueRecord(t, s); r.Key.String() != "1" {
		t.Errorf("record %v is due, want 1", r.Key)
	}
}

// TestReachUnderRefresh: what a start, or the end of an attempt, is refused for is told as
// it is under other policies; a start comes before the handler could write anything.
func TestReachUnderRefresh(t *testing.T) {
	const create = "CREATE TABLE banner (id INTEGER PRIMARY KEY, refresh_at TEXT, attempt_no INT, deadline_at TEXT, attempt_uid TEXT, provider TEXT, account INT"
	for _, x := range []struct {
		name, rest, script string
		start, end         backlog.Reach // of what is refused; -1: nothing is
	}{
		{"a count that is too high", ", CHECK (attempt_no < 1)", "", backlog.OneRow, backlog.OneRow},
		{"UNIQUE", ", UNIQUE (account, attempt_no)", "INSERT INTO banner (id, account, attempt_no) VALUES (2, 7, 1)", backlog.OneRow, backlog.OneRow},
		{"a CHECK at the start", ", CHECK (deadline_at IS NULL OR provider IS NOT NULL)", "", backlog.OneRow, backlog.OneRow},
		{"a CHECK at the end", ", CHECK (refresh_at < '2026-02-10 14:00:00' OR provider IS NOT NULL)", "", -1, backlog.HandlerDecides},
		{"a trigger that undoes", "", "CREATE TRIGGER t AFTER UPDATE ON banner BEGIN UPDATE banner SET deadline_at = NULL WHERE id = new.id; END", backlog.EveryRow, backlog.EveryRow},
	} {
		t.Run(x.name, func(t *testing.T) {
			f := newFile(t, create+x.rest+"); INSERT INTO banner (id, refresh_at, attempt_no, account) VALUES (1, '2026-02-10 11:00:00', 0, 7); "+x.script)
			s := proved(t, f.store(refreshMapping()))
			r := dueRecord(t, s)
			end := endedIn(r, backlog.RowSuccess, backlog.Memory{Next: noon.Add(day)})
			for what, g := range map[string]backlog.Settlement{"start": started(r), "end": end} {
				want := x.start
				if what == "end" {
					want = x.end
				}
				err := s.Try(t.Context(), g)
				switch {
				case want < 0 && err != nil:
					t.Errorf("%s: got %v, want no error", what, err)
				case want >= 0 && err == nil:
					t.Errorf("%s: got no error, want one that reaches %d", what, want)
				case err != nil:
					testkit.Equal(t, what+": reach of the error", backlog.ReachOf(err), want)
				}
			}
		})
	}
}
