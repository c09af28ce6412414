package table_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"backlog/backlog"
	"backlog/backlog/mapping"
	"backlog/backlog/table"
)

// retryPass runs a pass of the widest tier under the policy at a time; handle
// is called once for every record.
func retryPass(tb testing.TB, s *table.Table, p *backlog.Policy, now time.Time, handle func(*backlog.Record) error) backlog.Report {
	tb.Helper()
	e := &backlog.Engine{
		Store: s, Policy: p, Now: func() time.Time { return now }, Random: func() float64 { return 0.5 },
		Handler: backlog.HandlerFunc(func(_ context.Context, r *backlog.Record) error { return handle(r) }),
	}
	rep, err := e.Pass(context.Background(), backlog.Pass{Tier: "all", MaxAge: ages, Widest: true, Now: now})
	if err != nil {
		tb.Fatal(err)
	}
	return rep
}

// handled runs such a pass in which the given keys succeed and all others fail,
// and returns the keys in order.
func handled(tb testing.TB, s *table.Table, p *backlog.Policy, now time.Time, succeed string) string {
	tb.Helper()
	var order []string
	retryPass(tb, s, p, now, func(r *backlog.Record) error {
		order = append(order, r.Key.String())
		if strings.Contains(" "+succeed+" ", " "+r.Key.String()+" ") {
			return nil
		}
		return errors.New("no")
	})
	return strings.Join(order, " ")
}

// tasks has neither a date of insertion nor a status but a flag.
const tasks = `CREATE TABLE tasks (id INTEGER PRIMARY KEY, done boolean, updated_at timestamp, attempts int, task blob);
	INSERT INTO tasks VALUES
	(1, 0, NULL, NULL, x'00'), (2, 0, NULL, 0, x'01'), (3, 1, '2026-02-01 00:00:00', 7, x'02'), (4, 0, '2026-02-10 11:00:00', 1, NULL),
	(5, 0, '2026-02-10 11:00:01', 1, 'text'), (6, 0, '2026-02-10 03:00:00', 2, x''), (7, 0, '2026-02-08 00:00:00', 5000000, NULL), (8, 0, NULL, 3, NULL)`

// arctan is the curve of hours 1 7 16 20 and so on, cut.
var arctan = waiting(-1, time.Hour, 7*time.Hour, 16*time.Hour, 20*time.Hour, 24*time.Hour)

func tasksMapping() mapping.Mapping {
	return mapping.Mapping{
		Name: "tasks", ID: []string{"id"}, Inserted: mapping.Time{Column: "updated_at", Null: "newest"},
		New:     mapping.State{When: []mapping.Condition{cond("done", text("false"))}},
		Success: mapping.State{Set: []mapping.Assignment{set("done", text("true"))}},
		Error:   mapping.State{Keep: true},
		Policy:  retryColumns(arctan, "ATTEMPTS", "Updated_At"),
	}
}

func TestRetriesOfTasks(t *testing.T) {
	f := newFile(t, tasks)
	createIndexes(f, tasksMapping())
	s := f.store(tasksMapping())
	if got := handled(t, s, arctan, noon, "1 6"); got != "2 1 8 7 6 4" {
		t.Errorf("at noon: %s", got)
	}
	f.wantRows("SELECT * FROM tasks",
		"1 1 NULL NULL X'00'", "2 0 '2026-02-10 12:00:00' 1 X'01'", "3 1 '2026-02-01 00:00:00' 7 X'02'", "4 0 '2026-02-10 12:00:00' 2 NULL",
		"5 0 '2026-02-10 11:00:01' 1 'text'", "6 1 '2026-02-10 03:00:00' 2 X''", "7 0 '2026-02-10 12:00:00' 5000001 NULL", "8 0 '2026-02-10 12:00:00' 4 NULL")
	for _, x := range []struct {
		after time.Duration
		want  string
	}{
		{0, ""}, {time.Second, "5"}, {time.Hour - time.Millisecond, ""}, {time.Hour, "2"}, {7*time.Hour - 1, ""}, {7 * time.Hour, "4"},
		{8 * time.Hour, "5 2"}, {20*time.Hour - 1, ""}, {20 * time.Hour, "8"}, {23 * time.Hour, "4"}, {24*time.Hour - 1, ""}, {24 * time.Hour, "7 2 5"},
	} {
		if got := handled(t, s, arctan, noon.Add(x.after), ""); got != x.want {
			t.Errorf("%v after noon: %q, want %q", x.after, got, x.want)
		}
	}
	wantGoodPlans(t, "tasks", s)
}

// TestRetriesOfPascalCase has columns as some frameworks name them, and a
// mapping in another case.
func TestRetriesOfPascalCase(t *testing.T) {
	p := planning(2, 35*time.Second, 70*time.Second)
	f := newFile(t, `CREATE TABLE Jobs (Id TEXT PRIMARY KEY, Status TEXT, Created DATETIME,
		AttemptCount INTEGER, LastAttemptTime DATETIME, NextAttemptTime DATETIME, InRetry BIT);
		INSERT INTO Jobs VALUES ('a', 'NEW', '2026-02-10 10:00:00.000', NULL, NULL, NULL, NULL), ('b', 'NEW', '2026-02-10 11:00:00.000', 0, NULL, NULL, 0),
		('c', 'ERROR', '2026-02-10 10:00:00.000', 2, '2026-02-10 11:00:00.000', '2026-02-10 12:00:00.000', 1),
		('d', 'ERROR', '2026-02-10 10:00:00.000', 1, '2026-02-10 11:00:00.000', '2026-02-10 12:00:00.001', 1),
		('e', 'ERROR', '2026-02-10 10:00:00.000', 3, '2026-02-10 11:00:00.000', NULL, 0)`)
	m := plainMapping()
	m.Name, m.ID, m.Inserted.Column = "jobs", []string{"id"}, "created"
	m.Policy = retryColumns(p, "attemptcount", "lastattempttime", "nextattempttime", "inretry")
	createIndexes(f, m)
	s := f.store(m)
	if got := handled(t, s, p, noon, "b"); got != "b a c" {
		t.Errorf("at noon: %s", got)
	}
	f.wantRows("SELECT Id, Status, AttemptCount, LastAttemptTime, NextAttemptTime, InRetry FROM Jobs",
		"'a' 'ERROR' 1 '2026-02-10 12:00:00.000' '2026-02-10 12:00:35.000' 1", "'b' 'SUCCESS' 0 NULL NULL 0",
		"'c' 'ERROR' 3 '2026-02-10 12:00:00.000' NULL 0", "'d' 'ERROR' 1 '2026-02-10 11:00:00.000' '2026-02-10 12:00:00.001' 1",
		"'e' 'ERROR' 3 '2026-02-10 11:00:00.000' NULL 0")
	if got := handled(t, s, p, noon.Add(35*time.Second), "d"); got != "d a" {
		t.Errorf("35 s later: %s", got)
	}
	f.wantRows("SELECT AttemptCount, InRetry FROM Jobs WHERE Id = 'd'", "1 0")
	wantGoodPlans(t, "jobs", s)
}

func TestRetryColumnsMissing(t *testing.T) {
	f := newFile(t, "CREATE TABLE BACKLOG (id INTEGER PRIMARY KEY, status TEXT, date_inserted TEXT, failures INTEGER)")
	f.wantRefused(retryMapping(fibonacci()), `policy: table BACKLOG has no column "last_failure"; `+
		"`backlog init` adds it, or name another under columns: of the policy; the columns are: id, status, date_inserted, failures")
	f.exec("ALTER TABLE BACKLOG ADD COLUMN last_failure TEXT")
	f.wantRefused(retryMapping(planning(1, 0)), `policy: table BACKLOG has no column "next_try"; `+
		"`backlog init` adds it, or name another under columns: of the policy; the columns are: id, status, date_inserted, failures, last_failure")
	f.store(retryMapping(fibonacci()))
	f.store(plainMapping()) // no policy asks for its columns
	m := retryMapping(fibonacci())
	m.Policy.Count = "status"
	f.wantRefused(m, "policy: column status is TEXT, which cannot count failures; name a column of whole numbers")
}

// TestInitAddsRetryColumns to a table that holds data, in every form of times.
func TestInitAddsRetryColumns(t *testing.T) {
	for _, form := range timeForms {
		for _, p := range []*backlog.Policy{fibonacci(), planning(3, time.Minute)} {
			t.Run(fmt.Sprintf("%s, planned %t", form.name, p.Planned), func(t *testing.T) { testInitAdds(t, form, p) })
		}
	}
}

func testInitAdds(t *testing.T, form timeForm, p *backlog.Policy) {
	f := newFile(t, "CREATE TABLE BACKLOG (id INTEGER PRIMARY KEY, status TEXT, date_inserted "+form.decl+", payload BLOB)")
	at := noon.Add(-time.Hour).Add(-form.precision)
	for i, status := range []string{"NEW", "ERROR", "SUCCESS"} {
		f.exec("INSERT INTO BACKLOG VALUES (?, ?, ?, ?)", i+1, status, form.write(at), []byte{0, byte(i)})
	}
	const old = "SELECT id, status, date_inserted, payload FROM BACKLOG"
	before := f.rows(old)
	m := retryMapping(p)
	m.Zone = time.UTC
	m.Inserted.Zone = form.zone
	ctx, url := context.Background(), "sqlite:"+f.path
	steps, err := missing(ctx, url, m, noon)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // by two who have asked at once
		if err := create(ctx, url, steps); err != nil {
			t.Fatal(err)
		}
	}
	if steps, err := missing(ctx, url, m, noon); len(steps) > 0 || err != nil {
		t.Errorf("after init there are still missing: %q, %v", steps, err)
	}
	f.wantRows(old, before...)
	f.wantRows("SELECT DISTINCT failures, last_failure FROM BACKLOG", "0 NULL")
	if p.Planned {
		f.wantRows("SELECT DISTINCT next_try, in_retry FROM BACKLOG", "NULL 0")
	}
	s := f.store(m)
	wantGoodPlans(t, "after init", s)
	if got := handled(t, s, p, noon, ""); got != "1 2" {
		t.Errorf("at noon: %q", got)
	}
	for _, again := range []*table.Table{s, f.store(m)} { // which learns from what was written
		for _, x := range []struct {
			after time.Duration
			want  string
		}{{time.Minute - form.precision, ""}, {time.Minute, "1 2"}} {
			records, unreadable := readAll(t, again, backlog.Query{Lane: backlog.Failed, Limit: 10, Now: noon.Add(x.after)})
			if len(unreadable) > 0 {
				t.Errorf("%d rows cannot be read: %v", len(unreadable), unreadable[0])
			}
			wantKeys(t, fmt.Sprint(x.after, " after the failure"), records, x.want)
		}
	}
	f.wantRows("SELECT failures, typeof(last_failure) = typeof(date_inserted) FROM BACKLOG", "1 1", "1 1", "0 0")
}

// TestInitIsRefusedForWhatItCannotCure says so as without a policy.
func TestInitIsRefusedForWhatItCannotCure(t *testing.T) {
	f := newFile(t, "CREATE TABLE BACKLOG (id INTEGER PRIMARY KEY, state TEXT, date_inserted TEXT)")
	for _, retry := range []*mapping.PolicyColumns{nil, retryColumns(fibonacci(), usualColumns...)} {
		m := plainMapping()
		m.Policy = retry
		_, err := missing(context.Background(), "sqlite:"+f.path, m, noon)
		if p := (*table.Problem)(nil); !errors.As(err, &p) || !strings.Contains(err.Error(), `no column "status"`) {
			t.Errorf("with a policy %t: got %v", retry != nil, err)
		}
	}
}

// TestCreatedTableHasRetryColumns, those of a planned policy.
func TestCreatedTableHasRetryColumns(t *testing.T) {
	f := newFile(t, "CREATE TABLE other (x)")
	m := retryMapping(planning(3, time.Minute))
	createIndexes(f, m)
	f.exec("INSERT INTO BACKLOG (id, date_inserted) VALUES (1, '2026-02-10 11:00:00')")
	f.wantRows("SELECT status, failures, last_failure, next_try, in_retry FROM BACKLOG", "'NEW' 0 NULL NULL 0")
	if steps, err := missing(context.Background(), "sqlite:"+f.path, m, noon); len(steps) > 0 || err != nil {
		t.Errorf("after init there are still missing: %q, %v", steps, err)
	}
}

// TestProvingTeachesNothing: a table that was empty has the times that others
// write there first.
func TestProvingTeachesNothing(t *testing.T) {
	f := newFile(t, fmt.Sprintf(usualTable, "INTEGER"))
	s := f.store(retryMapping(fibonacci()))
	form := timeForms[4]
	f.exec("INSERT INTO BACKLOG VALUES (1, 'ERROR', ?, 1, ?, NULL, 0)", form.write(noon.Add(-time.Hour)), form.write(noon.Add(-time.Minute)))
	records := lane(t, s, backlog.Failed)
	wantKeys(t, "failed lane", records, "1")
	if want := (backlog.Memory{Failures: 1, LastFailure: noon.Add(-time.Minute)}); len(records) > 0 && !reflect.DeepEqual(records[0].Memory, &want) {
		t.Errorf("Retry: got %+v, want %+v", records[0].Memory, want)
	}
}
