package table_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"testing"
	"time"

	"backlog/backlog"
	"backlog/backlog/mapping"
	"backlog/backlog/table"
)

// outbox is a table without a status: what is done has a date of completion.
const outbox = `CREATE TABLE event_publication (
	id uuid PRIMARY KEY, listener_id varchar(512), serialized_event varchar(4000),
	publication_date timestamp NOT NULL, completion_date timestamp)`

func outboxMapping() mapping.Mapping {
	return mapping.Mapping{
		Name: "event_publication", ID: []string{"id"}, Inserted: mapping.Time{Column: "publication_date"},
		New:     mapping.State{When: []mapping.Condition{cond("completion_date", null)}},
		Success: mapping.State{Set: []mapping.Assignment{set("completion_date", text("now"))}},
		Error:   mapping.State{Keep: true},
	}
}

func TestStateWithoutStatusColumn(t *testing.T) {
	f := newFile(t, outbox+`;
		INSERT INTO event_publication VALUES
		('a-1', 'mail', '{}', '2026-02-10 09:00:00.123', NULL),
		('b-2', 'mail', '{}', '2026-02-10 10:00:00.5', NULL),
		('c-3', 'mail', '{}', '2026-02-10 11:00:00', '2026-02-10 11:00:01'),
		('d-4', 'mail', '{}', '2026-02-10 11:30:00', NULL)`)
	s := f.store(outboxMapping())
	if !s.OneLane() || s.HasDead() {
		t.Errorf("OneLane %v, HasDead %v; nothing stands for an error or for dead", s.OneLane(), s.HasDead())
	}
	want := []string{"no error status is written: failed records are not told from new ones, and age alone decides when they are tried"}
	if got := s.Notes(); !reflect.DeepEqual(got, want) {
		t.Errorf("Notes: got %q, want %q", got, want)
	}
	wantKeys(t, "failed lane", lane(t, s, backlog.Failed), "")
	records := lane(t, s, backlog.Fresh)
	wantKeys(t, "fresh lane", records, "d-4 b-2 a-1")
	if got := records[0].Status; got != "new" {
		t.Errorf("Status: got %q, want new", got)
	}

	f.exec("UPDATE event_publication SET completion_date = '2026-02-10 11:59:59' WHERE id = 'b-2'")
	for i, o := range []backlog.Outcome{backlog.Errored, backlog.Succeeded, backlog.Succeeded} {
		err := settle(t, s, records[i], o, "no route")
		if conflict := errors.Is(err, backlog.ErrConflict); conflict != (records[i].Key.String() == "b-2") {
			t.Errorf("settle %v as %v: %v", records[i].Key, o, err)
		}
	}
	if err := settle(t, s, records[0], backlog.Rejected, "no such listener"); err != nil {
		t.Errorf("reject: %v", err)
	}
	f.wantRows("SELECT * FROM event_publication",
		`'a-1' 'mail' '{}' '2026-02-10 09:00:00.123' '2026-02-10 12:00:00'`,
		`'b-2' 'mail' '{}' '2026-02-10 10:00:00.5' '2026-02-10 11:59:59'`,
		`'c-3' 'mail' '{}' '2026-02-10 11:00:00' '2026-02-10 11:00:01'`,
		`'d-4' 'mail' '{}' '2026-02-10 11:30:00' NULL`)

	c, err := s.Count(context.Background(), noon, []time.Duration{time.Hour, day})
	if err != nil {
		t.Fatal(err)
	}
	if want := map[string]int{"new": 1, "success": 3}; !reflect.DeepEqual(c.ByStatus, want) {
		t.Errorf("ByStatus: got %v, want %v", c.ByStatus, want)
	}
}

func TestStatesAsFlags(t *testing.T) {
	f := newFile(t, `CREATE TABLE jobs (id INTEGER PRIMARY KEY, at TEXT, processed BOOLEAN NOT NULL DEFAULT 0, failed BOOLEAN NOT NULL DEFAULT 0);
		INSERT INTO jobs VALUES
		(1, '2026-02-10 01:00:00', 0, 0), (2, '2026-02-10 02:00:00', 0, 1), (3, '2026-02-10 03:00:00', 1, 0), (4, '2026-02-10 04:00:00', 1, 1),
		(5, '2026-02-10 05:00:00', 0, 0), (6, '2026-02-10 06:00:00', 0, 1), (7, '2026-02-10 07:00:00', 0, 0), (8, '2026-02-10 08:00:00', 0, 1)`)
	s := f.store(mapping.Mapping{
		Name: "jobs", ID: []string{"id"}, Inserted: mapping.Time{Column: "at"},
		New:     mapping.State{When: []mapping.Condition{cond("processed", text("0")), cond("failed", text("false"))}},
		Error:   mapping.State{When: []mapping.Condition{cond("processed", text("0")), cond("failed", text("1"))}, Set: []mapping.Assignment{set("failed", text("1"))}},
		Success: mapping.State{Set: []mapping.Assignment{set("processed", text("true"))}},
	})
	if s.OneLane() || len(s.Notes()) > 0 {
		t.Errorf("OneLane %v, notes %q; the flags tell new from failed", s.OneLane(), s.Notes())
	}
	fresh, failed := lane(t, s, backlog.Fresh), lane(t, s, backlog.Failed)
	wantKeys(t, "fresh lane", fresh, "7 5 1")
	wantKeys(t, "failed lane", failed, "8 6 2")
	if fresh[0].Status != "new" || failed[0].Status != "error" {
		t.Errorf("the states are called %q and %q, want new and error", fresh[0].Status, failed[0].Status)
	}

	f.exec("UPDATE jobs SET failed = 1 WHERE id = 1; UPDATE jobs SET processed = 1 WHERE id = 2")
	outcomes := []backlog.Outcome{backlog.Succeeded, backlog.Errored, backlog.Succeeded}
	var group []backlog.Settlement
	for i, r := range append(fresh, failed...) {
		group = append(group, backlog.Settlement{Record: &r, Target: outcomes[i%3].Target(), At: noon})
	}
	left, err := s.Settle(context.Background(), group)
	if err != nil {
		t.Fatal(err)
	}
	for _, u := range left {
		if k := group[u.Index].Record.Key.String(); k != "1" && k != "2" || !errors.Is(u.Err, backlog.ErrConflict) {
			t.Errorf("row %s: %v", k, u.Err)
		}
	}
	if len(left) != 2 {
		t.Errorf("%d conflicts, want those of the two rows whose flags have changed", len(left))
	}
	f.wantRows("SELECT id, processed, failed FROM jobs",
		"1 0 1", "2 1 1", "3 1 0", "4 1 1", "5 0 1", "6 0 1", "7 1 0", "8 1 1")
}

func TestSeveralNewStatusesAreOneLaneNewestFirst(t *testing.T) {
	f := newFile(t, `CREATE TABLE BACKLOG (id INTEGER PRIMARY KEY, status TEXT, date_inserted TEXT);
		INSERT INTO BACKLOG VALUES
		(1, 'NEW', '2026-02-10 01:00:00'), (2, 'AGAIN', '2026-02-10 02:00:00'), (3, NULL, '2026-02-10 03:00:00'),
		(4, 'AGAIN', '2026-02-10 05:00:00'), (5, NULL, '2026-02-10 05:00:00'), (6, 'NEW', '2026-02-10 05:00:00'),
		(7, 'AGAIN', '2026-02-10 04:00:00'), (8, 'DONE', '2026-02-10 06:00:00'), (9, 'NEW', '2026-02-10 06:00:00')`)
	m := plainMapping()
	m.New = is(text("NEW"), text("AGAIN"), null)
	s := f.store(m)
	for _, size := range []int{1, 2, 7, 100} {
		records, _ := readAll(t, s, backlog.Query{Limit: size})
		wantKeys(t, "fresh lane", records, "9 6 5 4 7 3 2 1")
	}
	for _, r := range lane(t, s, backlog.Fresh) {
		if err := settle(t, s, r, backlog.Errored, ""); err != nil {
			t.Errorf("settle %v: %v", r.Key, err)
		}
	}
	f.wantRows("SELECT status, count(*) FROM BACKLOG GROUP BY 1", "'DONE' 1", "'ERROR' 8")
}

// TestCoincidingStates: what is written, what is tried again and what people
// are told where states are one or missing.
func TestCoincidingStates(t *testing.T) {
	const (
		noError = "no error status is written: failed records are not told from new ones, and age alone decides when they are tried"
		isNew   = "statuses.error is one of statuses.new: failed records are not told from new ones, and age alone decides when they are tried"
		isDead  = "statuses.error is statuses.dead: a record that fails once is never tried again"
	)
	for _, x := range []struct {
		name            string
		new, error_     mapping.State
		dead            mapping.State
		notes           []string
		oneLane         bool
		errored, reject string // what status they leave
		again           string // the records that are still pending
		expired         int
	}{
		{"four states", is(text("NEW")), is(text("ERROR")), is(text("DEAD")), nil, false, "ERROR", "DEAD", "1", 1},
		{"no dead", is(text("NEW")), is(text("ERROR")), mapping.State{}, nil, false, "ERROR", "ERROR", "2 1", 0},
		{"error is new", is(text("NEW")), is(text("NEW")), is(text("DEAD")), []string{isNew}, true, "NEW", "DEAD", "1", 1},
		{"error is one of several new", is(text("NEW"), text("AGAIN")), is(text("AGAIN")), is(text("DEAD")), []string{isNew}, true, "AGAIN", "DEAD", "1", 1},
		{"error is dead", is(text("NEW")), is(text("DEAD")), is(text("DEAD")), []string{isDead}, true, "DEAD", "DEAD", "", 0},
		{"error is one of several dead", is(text("NEW")), is(text("DEAD")), is(text("GONE"), text("DEAD")), []string{isDead}, true, "DEAD", "GONE", "", 0},
		{"error keeps", is(text("NEW")), mapping.State{Keep: true, Explicit: true}, is(text("DEAD")), []string{noError}, true, "NEW", "DEAD", "1", 1},
		{"error keeps, no dead", is(text("NEW")), mapping.State{Keep: true, Explicit: true}, mapping.State{}, []string{noError}, true, "NEW", "NEW", "2 1", 0},
	} {
		t.Run(x.name, func(t *testing.T) {
			f := newFile(t, `CREATE TABLE BACKLOG (id INTEGER PRIMARY KEY, status TEXT, date_inserted TEXT);
				INSERT INTO BACKLOG VALUES (1, 'NEW', '2026-02-10 01:00:00'), (2, 'NEW', '2026-02-10 02:00:00'), (3, 'NEW', '2026-02-10 03:00:00')`)
			m := plainMapping()
			m.New, m.Error, m.Dead = x.new, x.error_, x.dead
			s := f.store(m)
			if got := s.Notes(); !reflect.DeepEqual(got, x.notes) {
				t.Errorf("Notes: got %q, want %q", got, x.notes)
			}
			if s.OneLane() != x.oneLane || s.HasDead() != (len(x.dead.Values) > 0) {
				t.Errorf("OneLane %v, want %v; HasDead %v", s.OneLane(), x.oneLane, s.HasDead())
			}
			outcomes := map[string]backlog.Outcome{"1": backlog.Errored, "2": backlog.Rejected, "3": backlog.Succeeded}
			settleAll(t, s, func(r backlog.Record) (backlog.Outcome, string) { return outcomes[r.Key.String()], "" })
			f.wantRows("SELECT status FROM BACKLOG", "'"+x.errored+"'", "'"+x.reject+"'", "'SUCCESS'")
			again := append(lane(t, s, backlog.Fresh), lane(t, s, backlog.Failed)...)
			wantKeys(t, "pending afterwards", again, x.again)

			n, err := expire(context.Background(), s, noon, noon)
			if n != x.expired || err != nil {
				t.Errorf("Expire: got %d, %v, want %d", n, err, x.expired)
			}
		})
	}
}

func TestSuccessMustWriteSomething(t *testing.T) {
	f := newFile(t, outbox)
	m := outboxMapping()
	m.Success = mapping.State{}
	f.wantRefused(m, "statuses.success writes nothing: a record that succeeded would be tried again; say what a success sets, such as success: {set: {done_at: now}}")
}

// TestFixedFilterBelongsToEveryStatement: rows outside it are neither read,
// settled, expired, counted nor sampled.
func TestFixedFilterBelongsToEveryStatement(t *testing.T) {
	for _, x := range []struct {
		name  string
		where []mapping.Condition
		in    string // the rows within, newest first
	}{
		{"value", []mapping.Condition{cond("queue", text("mail"))}, "5 1"},
		{"list", []mapping.Condition{cond("queue", text("mail"), text("o'clock"))}, "5 2 1"},
		{"null", []mapping.Condition{cond("queue", null)}, "6 3"},
		{"list with null", []mapping.Condition{cond("queue", null, text("mail"))}, "6 5 3 1"},
		{"two columns", []mapping.Condition{cond("queue", text("mail")), cond("deleted_at", null)}, "1"},
	} {
		t.Run(x.name, func(t *testing.T) {
			f := newFile(t, `CREATE TABLE BACKLOG (id INTEGER PRIMARY KEY, status TEXT, date_inserted TEXT, queue TEXT, deleted_at TEXT);
				INSERT INTO BACKLOG VALUES
				(1, 'NEW', '2026-02-01 01:00:00', 'mail', NULL), (2, 'NEW', '2026-02-01 02:00:00', 'o''clock', NULL), (3, 'NEW', '2026-02-01 03:00:00', NULL, NULL),
				(4, 'NEW', '2026-02-01 04:00:00', 'sms', NULL), (5, 'NEW', '2026-02-01 05:00:00', 'mail', '2026-02-02'), (6, 'NEW', '2026-02-01 06:00:00', NULL, '2026-02-02'),
				(7, 'NEW', 'yesterday', 'sms', '2026-02-02')`)
			m := plainMapping()
			m.Where, m.Dead = x.where, is(text("DEAD"))
			s := f.store(m)
			in := lane(t, s, backlog.Fresh)
			wantKeys(t, "fresh lane", in, x.in)
			c, err := s.Count(context.Background(), noon, []time.Duration{365 * day})
			if err != nil || c.ByStatus["NEW"] != len(in) || c.Pending() != len(in) {
				t.Errorf("Count: got %+v, %v, want %d rows", c, err, len(in))
			}
			if c.Unreadable != 0 {
				t.Errorf("Count: got %d unreadable; the row without a date is not within the filter", c.Unreadable)
			}

			f.exec("UPDATE BACKLOG SET queue = 'moved' WHERE id = ?", in[0].Key.Part(0))
			if err := settle(t, s, in[0], backlog.Succeeded, ""); !errors.Is(err, backlog.ErrConflict) {
				t.Errorf("settle of a row that has left the filter: got %v, want a conflict", err)
			}
			if n, err := expire(context.Background(), s, noon, noon); n != len(in)-1 || err != nil {
				t.Errorf("Expire: got %d, %v, want %d", n, err, len(in)-1)
			}
			f.wantRows("SELECT count(*) FROM BACKLOG WHERE status = 'NEW'", map[int]string{1: "7", 2: "6", 3: "5", 4: "4"}[len(in)])
		})
	}
}

// TestStateToldByAMoment: where what is new has no time of an end, that time
// tells the end, but for one that two ends set.
func TestStateToldByAMoment(t *testing.T) {
	for _, x := range []struct {
		name, want string
		success    []mapping.Assignment
		dead       []mapping.Assignment
	}{
		{"success", "map[new:1 other:1 success:1]", []mapping.Assignment{set("done_at", text("now"))}, nil},
		{"both", "map[dead:1 new:1 success:1]", []mapping.Assignment{set("done_at", text("now"))}, []mapping.Assignment{set("left_at", text("now"))}},
		{"the same one", "map[dead:1 new:1 other:1]", []mapping.Assignment{set("done_at", text("now"))}, []mapping.Assignment{set("done_at", text("now")), set("why", text("dead"))}},
		{"another column", "map[new:1 other:2]", []mapping.Assignment{set("seen_at", text("now")), set("n", text("+1"))}, nil},
	} {
		t.Run(x.name, func(t *testing.T) {
			f := newFile(t, `CREATE TABLE jobs (id INTEGER PRIMARY KEY, at TEXT, done_at TEXT, left_at TEXT, seen_at TEXT, why TEXT, n INTEGER);
				INSERT INTO jobs (id, at, done_at, left_at, why) VALUES (1, '2026-02-10 09:00:00', NULL, NULL, NULL),
				(2, '2026-02-10 09:00:00', '2026-02-10 09:30:00', NULL, NULL), (3, '2026-02-10 09:00:00', NULL, '2026-02-10 09:30:00', 'dead')`)
			m := mapping.Mapping{
				Name: "jobs", ID: []string{"id"}, Inserted: mapping.Time{Column: "at"},
				New:     mapping.State{When: []mapping.Condition{cond("done_at", null), cond("left_at", null), cond("n", null)}},
				Success: mapping.State{Set: x.success}, Error: mapping.State{Keep: true}, Dead: mapping.State{Set: x.dead},
			}
			counts, err := f.store(m).Count(context.Background(), noon, []time.Duration{24 * time.Hour})
			if err != nil {
				t.Fatal(err)
			}
			if got := fmt.Sprint(counts.ByStatus); got != x.want {
				t.Errorf("got %s, want %s", got, x.want)
			}
		})
	}
}

// Statuses that mean the same value of their column are one state, in both lanes.
func TestStatusesOfTheSameValue(t *testing.T) {
	quoted := func(s string) mapping.Value { return mapping.Value{Text: s, Quoted: true} }
	for _, kind := range []string{"sqlite", "postgres", "mysql"} {
		t.Run(kind, func(t *testing.T) {
			plain, url := newDatabase(t, kind)
			typ, fresh, failed := "int", []mapping.Value{text("0"), quoted("0")}, []mapping.Value{text("1"), quoted("1")}
			if kind == "postgres" {
				typ, fresh, failed = "boolean", []mapping.Value{text("false"), quoted("false")}, []mapping.Value{text("true"), quoted("True")}
			}
			for _, s := range []string{
				"CREATE TABLE jobs (id int PRIMARY KEY, status " + typ + ", date_inserted varchar(30))",
				"INSERT INTO jobs VALUES (1, '0', '2026-02-10 11:00:00'), (2, '1', '2026-02-10 11:00:00')",
			} {
				if _, err := plain.Exec(s); err != nil {
					t.Fatal(err)
				}
			}
			m := plainMapping()
			m.Name, m.New, m.Error, m.Success = "jobs", is(fresh...), is(failed...), mapping.State{Set: []mapping.Assignment{set("status", null)}, Explicit: true}
			db, err := openDB(t.Context(), url, table.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			s, err := table.New(t.Context(), db, m)
			if err != nil {
				t.Fatal(err)
			}
			wantKeys(t, "fresh lane", lane(t, s, backlog.Fresh), "1")
			wantKeys(t, "failed lane", lane(t, s, backlog.Failed), "2")
		})
	}
}

// expire expires what was inserted before a time, without a word.
func expire(ctx context.Context, s *table.Table, now, before time.Time) (int, error) {
	return s.Expire(ctx, quietly(now, before))
}

// quietly is an expiry whose calls do nothing.
func quietly(now, before time.Time) backlog.Expiry {
	return backlog.Expiry{
		Now: now, Before: before,
		Skips:   func(backlog.Key) bool { return false },
		Died:    func([]backlog.Record, int) {},
		Refused: func(*backlog.Record, error) {},
	}
}

// unrefused is for rows of which the database refuses none.
func unrefused(t testing.TB) func(backlog.Key, error) {
	return func(k backlog.Key, err error) { t.Errorf("the database refuses row %v: %v", k, err) }
}
