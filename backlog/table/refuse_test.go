package table_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"backlog/backlog"
	"backlog/backlog/inspect"
	"backlog/backlog/mapping"
	"backlog/backlog/table"
	"backlog/internal/testkit"
)

// A refusal makes a table refuse that rows with sick = 1 leave the status ERROR.
type refusal struct {
	name   string
	script []string
	reason string // a part of what is said of each
}

const (
	allowedRows = "INSERT INTO allowed VALUES (0, 'ERROR'), (0, 'SUCCESS'), (0, 'DEAD'), (0, 'NEW'), (1, 'ERROR')"
	others      = "INSERT INTO jobs SELECT id + 10000, 'other', 'SUCCESS', at, 2, u FROM jobs WHERE sick = 1"
	moreOthers  = "INSERT INTO jobs SELECT id + 10000, 'other', 'DEAD', at, 2, u FROM jobs WHERE sick = 2"
	lastOthers  = "INSERT INTO jobs SELECT id + 20000, 'other', 'NEW', at, 2, u FROM jobs WHERE sick = 2 AND status = 'DEAD'"
)

var refusals = map[string][]refusal{
	"sqlite": {
		{"UNIQUE", []string{"CREATE UNIQUE INDEX i ON jobs (u, status)", others, moreOthers, lastOthers}, "UNIQUE constraint failed"},
		{"partial UNIQUE", []string{"CREATE UNIQUE INDEX i ON jobs (u) WHERE status <> 'ERROR'", others}, "UNIQUE constraint failed"},
		{"CHECK", []string{
			"ALTER TABLE jobs RENAME TO old", "CREATE TABLE jobs (id INTEGER PRIMARY KEY, kind TEXT, status TEXT, at TEXT, sick INTEGER, u INTEGER, CHECK (status = 'ERROR' OR sick <> 1))",
			"INSERT INTO jobs SELECT * FROM old",
		}, "CHECK constraint failed"},
		{"ABORT", []string{"CREATE TRIGGER g BEFORE UPDATE ON jobs WHEN new.sick = 1 BEGIN SELECT raise(ABORT, 'not this one'); END"}, "not this one"},
		{"ROLLBACK", []string{"CREATE TRIGGER g AFTER UPDATE ON jobs WHEN new.sick = 1 BEGIN SELECT raise(ROLLBACK, 'not this one'); END"}, "not this one"},
		{"IGNORE", []string{"CREATE TRIGGER g BEFORE UPDATE ON jobs WHEN new.sick = 1 BEGIN SELECT raise(IGNORE); END"}, "is undone"},
		{"undone", []string{"CREATE TRIGGER g AFTER UPDATE ON jobs WHEN new.sick = 1 BEGIN UPDATE jobs SET status = old.status WHERE id = old.id; END"}, "is undone"},
		{"an error of a function", []string{"CREATE TRIGGER g AFTER UPDATE ON jobs WHEN new.sick = 1 BEGIN SELECT json_extract('{', '$.a'); END"}, "malformed JSON"},
		{"NOT NULL", []string{
			"CREATE TABLE log (at TEXT NOT NULL)", "CREATE TRIGGER g AFTER UPDATE ON jobs BEGIN INSERT INTO log VALUES (CASE new.sick WHEN 1 THEN NULL ELSE '' END); END",
		}, "NOT NULL constraint failed"},
	},
	"postgres": {
		{"UNIQUE", []string{"CREATE UNIQUE INDEX i ON jobs (u, status)", others, moreOthers, lastOthers}, "duplicate key"},
		{"UNIQUE at the commit", []string{"ALTER TABLE jobs ADD CONSTRAINT c UNIQUE (u, status) DEFERRABLE INITIALLY DEFERRED", others, moreOthers, lastOthers}, "duplicate key"},
		{"partial UNIQUE", []string{"CREATE UNIQUE INDEX i ON jobs (u) WHERE status <> 'ERROR'", others}, "duplicate key"},
		{"CHECK", []string{"ALTER TABLE jobs ADD CHECK (status = 'ERROR' OR sick <> 1)"}, "violates check constraint"},
		{"NOT NULL", []string{"ALTER TABLE jobs ADD g integer GENERATED ALWAYS AS (CASE WHEN sick = 1 AND status <> 'ERROR' THEN NULL ELSE 1 END) STORED NOT NULL"}, "violates not-null constraint"},
		{"foreign key", []string{
			"CREATE TABLE allowed (sick integer, status varchar(20), PRIMARY KEY (sick, status))", allowedRows, "ALTER TABLE jobs ADD FOREIGN KEY (sick, status) REFERENCES allowed",
		}, "violates foreign key constraint"},
		{"foreign key at the commit", []string{
			"CREATE TABLE allowed (sick integer, status varchar(20), PRIMARY KEY (sick, status))", allowedRows,
			"ALTER TABLE jobs ADD FOREIGN KEY (sick, status) REFERENCES allowed DEFERRABLE INITIALLY DEFERRED",
		}, "violates foreign key constraint"},
		{"a constraint of another table at the commit", []string{
			"CREATE TABLE allowed (sick integer PRIMARY KEY)", "INSERT INTO allowed VALUES (0)",
			"CREATE TABLE log (sick integer REFERENCES allowed DEFERRABLE INITIALLY DEFERRED)",
			"CREATE FUNCTION g() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO log VALUES (NEW.sick); RETURN NEW; END $$",
			"CREATE TRIGGER g AFTER UPDATE ON jobs FOR EACH ROW EXECUTE FUNCTION g()",
		}, "violates foreign key constraint"},
		{"exclusion", []string{"ALTER TABLE jobs ADD EXCLUDE USING btree (u WITH =) WHERE (status <> 'ERROR')", others}, "conflicting key value"},
		plpgsql("a trigger", "RAISE EXCEPTION 'not this one'", "not this one"),
		plpgsql("a trigger with its own code", "RAISE EXCEPTION 'not this one' USING ERRCODE = 'MY001'", "not this one"),
		plpgsql("a trigger that calls it a right", "RAISE EXCEPTION 'not this one' USING ERRCODE = 'insufficient_privilege'", "not this one"),
		plpgsql("a trigger that uses what is not there", "PERFORM 1 FROM nowhere", "nowhere"),
		plpgsql("a trigger that divides", "PERFORM 1 / (NEW.sick - 1)", "division by zero"),
		plpgsql("a trigger that ignores", "RETURN NULL", "is undone"),
		plpgsql("a trigger that undoes", "NEW.status := OLD.status", "is undone"),
	},
	"mysql": {
		{"UNIQUE", []string{"CREATE UNIQUE INDEX i ON jobs (u, status)", others, moreOthers, lastOthers}, "Duplicate entry"},
		{"UNIQUE over a generated column", []string{"ALTER TABLE jobs ADD v INTEGER AS (CASE WHEN status <> 'ERROR' THEN u END)", "CREATE UNIQUE INDEX i ON jobs (v)",
			"INSERT INTO jobs (id, kind, status, at, sick, u) SELECT id + 10000, 'other', 'SUCCESS', at, 2, u FROM jobs WHERE sick = 1"}, "Duplicate entry"},
		{"CHECK", []string{"ALTER TABLE jobs ADD CHECK (status = 'ERROR' OR sick <> 1)"}, "CONSTRAINT"},
		{"foreign key", []string{
			"CREATE TABLE allowed (sick INTEGER, status VARCHAR(20), PRIMARY KEY (sick, status))", allowedRows, "ALTER TABLE jobs ADD FOREIGN KEY (sick, status) REFERENCES allowed (sick, status)",
		}, "foreign key constraint fails"},
		{"a trigger", []string{"CREATE TRIGGER g BEFORE UPDATE ON jobs FOR EACH ROW BEGIN IF NEW.sick = 1 THEN SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'not this one'; END IF; END"}, "not this one"},
		{"a trigger with its own number", []string{"CREATE TRIGGER g BEFORE UPDATE ON jobs FOR EACH ROW BEGIN IF NEW.sick = 1 THEN SIGNAL SQLSTATE 'HY000' SET MESSAGE_TEXT = 'not this one', MYSQL_ERRNO = 31001; END IF; END"}, "not this one"},
		{"a trigger that undoes", []string{"CREATE TRIGGER g BEFORE UPDATE ON jobs FOR EACH ROW BEGIN IF NEW.sick = 1 THEN SET NEW.status = OLD.status; END IF; END"}, "is undone"},
		{"NOT NULL", []string{"CREATE TABLE log (at INTEGER NOT NULL)", "CREATE TRIGGER g AFTER UPDATE ON jobs FOR EACH ROW INSERT INTO log VALUES (IF(NEW.sick = 1, NULL, 1))"}, "cannot be null"},
	},
}

// plpgsql is a trigger that does something about sick rows.
func plpgsql(name, does, reason string) refusal {
	return refusal{name, []string{
		"CREATE FUNCTION g() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF NEW.sick = 1 THEN " + does + "; END IF; RETURN NEW; END $$",
		"CREATE TRIGGER g BEFORE UPDATE ON jobs FOR EACH ROW EXECUTE FUNCTION g()",
	}, reason}
}

// sickRows are at the beginning and the end of the table and of groups.
var sickRows = []int64{1, 2, 3, 250, 500, 501, 619, 620}

// A sickbed is a table of 620 failed rows, and what is heard of the sick ones among them.
type sickbed struct {
	*table.Table
	t         *testing.T
	plain     *sql.DB
	refusal   refusal
	refused   []int64
	announced []int64
	died      int
}

func newSickbed(t *testing.T, d testDatabase, x refusal) *sickbed {
	t.Helper()
	plain, url := d.open(t)
	t.Cleanup(func() { plain.Close() })
	rows := make([]string, 620)
	for i := range rows {
		sick := 0
		if slices.Contains(sickRows, int64(i+1)) {
			sick = 1
		}
		rows[i] = fmt.Sprintf("(%d, 'job', 'ERROR', '2026-02-01 10:00:00', %d, %[1]d)", i+1, sick)
	}
	script := append([]string{
		"CREATE TABLE jobs (id INTEGER PRIMARY KEY, kind VARCHAR(20), status VARCHAR(20), at TIMESTAMP NULL, sick INTEGER, u INTEGER)",
		"INSERT INTO jobs VALUES " + strings.Join(rows, ", "),
	}, x.script...)
	for _, text := range script {
		if _, err := plain.Exec(d.sql(text)); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
	}
	db, err := openDB(t.Context(), url, table.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	m := plainMapping()
	m.Name = "jobs"
	m.Inserted = mapping.Time{Column: "at"}
	m.Dead = is(text("DEAD"))
	m.Where = []mapping.Condition{cond("kind", text("job"))}
	tab, err := table.New(t.Context(), db, m)
	if err != nil {
		t.Fatal(err)
	}
	if err := tab.Prove(t.Context(), noon); err != nil {
		t.Fatal(err)
	}
	return &sickbed{Table: tab, t: t, plain: plain, refusal: x}
}

// again makes all rows failed ones, of which nothing has been heard.
func (b *sickbed) again(t *testing.T) *sickbed {
	if _, err := b.plain.Exec("UPDATE jobs SET status = 'ERROR' WHERE kind = 'job' AND status <> 'ERROR'"); err != nil {
		t.Fatal(err)
	}
	return &sickbed{Table: b.Table, t: t, plain: b.plain, refusal: b.refusal}
}

func (b *sickbed) refuse(k backlog.Key, why error) {
	b.t.Helper()
	b.refused = append(b.refused, k.Part(0).(int64))
	if !strings.Contains(why.Error(), b.refusal.reason) {
		b.t.Errorf("row %v is refused with %q, want %q", k, why, b.refusal.reason)
	}
}

func (b *sickbed) expiry(announced bool) backlog.Expiry {
	x := quietly(noon, noon)
	x.Skips = func(k backlog.Key) bool { return slices.Contains(b.refused, k.Part(0).(int64)) }
	x.Died = func(_ []backlog.Record, n int) { b.died += n }
	x.Refused = func(r *backlog.Record, why error) { b.refuse(r.Key, why) }
	if announced {
		x.BeforeDeath = func(r *backlog.Record) bool {
			b.announced = append(b.announced, r.Key.Part(0).(int64))
			return true
		}
	}
	return x
}

// want checks that n rows are written, all but the sick ones, which are named.
func (b *sickbed) want(n int, err error, wantsAnnounced bool) {
	b.t.Helper()
	slices.Sort(b.refused)
	if healthy := 620 - len(sickRows); n != healthy || err != nil || !slices.Equal(b.refused, sickRows) {
		b.t.Fatalf("%d are written, %v refused, error %v; want %d written and %v refused", n, b.refused, err, healthy, sickRows)
	}
	isSick := func(id int64) bool { return slices.Contains(sickRows, id) }
	atCommit := strings.HasSuffix(b.refusal.name, "another table at the commit") // which no trial can show
	if wantsAnnounced && (slices.ContainsFunc(b.announced, isSick) != atCommit || len(b.announced) < n) {
		b.t.Errorf("%d are announced, sick ones too: %t", len(b.announced), slices.ContainsFunc(b.announced, isSick))
	}
}

// A row that the database refuses, by whatever it has for that, is named and left as it was,
// and all others are written: outcomes, expiry, requeueing and discarding.
func TestSickRows(t *testing.T) {
	for name, d := range map[string]testDatabase{"sqlite": onSQLite, "postgres": onPostgres, "mysql": onMySQL} {
		for _, x := range refusals[name] {
			t.Run(name+"/"+x.name, func(t *testing.T) {
				b := newSickbed(t, d, x)
				t.Run("settle", func(t *testing.T) { testSickSettle(t, b.again(t)) })
				t.Run("expire", func(t *testing.T) { testSickExpire(t, b.again(t), false) })
				t.Run("expire announced", func(t *testing.T) { testSickExpire(t, b.again(t), true) })
				t.Run("requeue", func(t *testing.T) { testSickRequeue(t, b.again(t)) })
				t.Run("discard", func(t *testing.T) { testSickDiscard(t, b.again(t)) })
			})
		}
	}
}

func testSickSettle(t *testing.T, b *sickbed) {
	page, err := b.Pending(t.Context(), backlog.Query{Lane: backlog.Failed, Now: noon, Since: noon.Add(-ages), Limit: 1000})
	if err != nil || len(page.Records) != 620 {
		t.Fatalf("%d records, %v", len(page.Records), err)
	}
	n := 0
	group := successes(page.Records)
	for part := range slices.Chunk(group, 310) {
		for _, rehearsal := range []bool{true, false} {
			b.announced = nil
			settle := b.Settle
			if rehearsal {
				settle = b.Rehearse
			}
			left, err := settle(t.Context(), part)
			if err != nil {
				t.Fatal(err)
			}
			for _, u := range left {
				if !rehearsal {
					b.refuse(part[u.Index].Record.Key, u.Err)
				}
				if errors.Is(u.Err, backlog.ErrConflict) {
					t.Errorf("row %v: %v", part[u.Index].Record.Key, u.Err)
				}
			}
			if !rehearsal {
				n += len(part) - len(left)
			}
		}
	}
	b.want(n, nil, false)
}

func testSickExpire(t *testing.T, b *sickbed, announced bool) {
	n, err := b.Expire(t.Context(), b.expiry(announced))
	b.want(n, err, announced)
	if b.died != n {
		t.Errorf("%d died, of %d", b.died, n)
	}
	b.announced = nil
	n, err = b.Expire(t.Context(), b.expiry(announced))
	if err != nil {
		t.Errorf("the second time: %v", err)
	}
	testkit.Equal(t, "the second time: written", n, 0)
	testkit.Equal(t, "the second time: refused", len(b.refused), len(sickRows))
	testkit.Equal(t, "the second time: announced", len(b.announced), 0)
}

func testSickRequeue(t *testing.T, b *sickbed) {
	for _, want := range []int{620 - len(sickRows), 0} { // the second time they are alone
		b.refused = nil
		n, err := b.Requeue(t.Context(), table.Filter{}, noon, b.refuse)
		if n != want {
			t.Errorf("%d are put back, want %d", n, want)
		}
		b.want(n+620-len(sickRows)-want, err, false)
	}
}

func testSickDiscard(t *testing.T, b *sickbed) {
	d := table.Discarding{Refused: b.refuse, Died: func(*inspect.Row) { b.died++ }}
	d.BeforeDeath = func(r *inspect.Row) (bool, error) {
		b.announced = append(b.announced, r.Key.Part(0).(int64))
		return true, nil
	}
	n, err := b.Discard(context.Background(), table.Filter{}, noon, d)
	b.want(n, err, true)
	if b.died != n {
		t.Errorf("%d died, of %d", b.died, n)
	}
}

// Starts and ends of the refresh policy: a row that the database refuses, or leaves as it
// was, is told by its reason, and is no conflict, after which it would be started again.
func TestSickRowsOfRefresh(t *testing.T) {
	kinds := map[string]testDatabase{"sqlite": onSQLite, "postgres": onPostgres, "mysql": onMySQL}
	for name, scripts := range map[string]map[string]string{
		"sqlite": {
			"is undone":  "CREATE TRIGGER g BEFORE UPDATE ON banner WHEN new.id = 2 BEGIN SELECT raise(IGNORE); END",
			"put back":   "CREATE TRIGGER g AFTER UPDATE ON banner WHEN new.id = 2 BEGIN UPDATE banner SET attempt_uid = old.attempt_uid, attempt_no = old.attempt_no WHERE id = old.id; END",
			"never this": "CREATE TRIGGER g BEFORE UPDATE ON banner WHEN new.id = 2 BEGIN SELECT raise(ABORT, 'never this'); END",
		},
		"postgres": {
			"is undone":  "CREATE FUNCTION g() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF NEW.id = 2 THEN RETURN NULL; END IF; RETURN NEW; END $$; CREATE TRIGGER g BEFORE UPDATE ON banner FOR EACH ROW EXECUTE FUNCTION g()",
			"put back":   "CREATE FUNCTION g() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF NEW.id = 2 THEN RETURN OLD; END IF; RETURN NEW; END $$; CREATE TRIGGER g BEFORE UPDATE ON banner FOR EACH ROW EXECUTE FUNCTION g()",
			"never this": "CREATE FUNCTION g() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF NEW.id = 2 THEN RAISE EXCEPTION 'never this'; END IF; RETURN NEW; END $$; CREATE TRIGGER g BEFORE UPDATE ON banner FOR EACH ROW EXECUTE FUNCTION g()",
		},
		"mysql": {
			"put back":   "CREATE TRIGGER g BEFORE UPDATE ON banner FOR EACH ROW BEGIN IF NEW.id = 2 THEN SET NEW.attempt_uid = OLD.attempt_uid, NEW.attempt_no = OLD.attempt_no; END IF; END",
			"never this": "CREATE TRIGGER g BEFORE UPDATE ON banner FOR EACH ROW BEGIN IF NEW.id = 2 THEN SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'never this'; END IF; END",
		},
	} {
		d := kinds[name]
		for reason, script := range scripts {
			t.Run(name+"/"+reason, func(t *testing.T) { testSickRefresh(t, d, strings.Replace(reason, "put back", "is undone", 1), script) })
		}
	}
}

func testSickRefresh(t *testing.T, d testDatabase, reason, script string) {
	plain, url := d.open(t)
	defer plain.Close()
	for _, text := range []string{
		`CREATE TABLE banner (id INTEGER PRIMARY KEY, refresh_at TIMESTAMP NULL, attempt_no INTEGER NOT NULL DEFAULT 0, deadline_at TIMESTAMP NULL, attempt_uid VARCHAR(40),
			started_at TIMESTAMP NULL, disabled ` + d.boolean + ` NOT NULL DEFAULT false, disabled_reason VARCHAR(200), failing_since TIMESTAMP NULL)`,
		"INSERT INTO banner (id, refresh_at) VALUES (1, '2026-02-10 11:00:00'), (2, '2026-02-10 11:00:00'), (3, '2026-02-10 11:00:00')",
	} {
		if _, err := plain.Exec(d.sql(text)); err != nil {
			t.Fatal(err)
		}
	}
	db, err := openDB(t.Context(), url, table.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	open := func() *table.Table {
		tab, err := table.New(t.Context(), db, refreshMapping())
		if err != nil {
			t.Fatal(err)
		}
		return proved(t, tab)
	}
	healthy := open()
	page, err := healthy.Pending(t.Context(), backlog.Query{Lane: backlog.Fresh, Now: noon, Limit: 10})
	if err != nil || len(page.Records) != 3 {
		t.Fatal(err, len(page.Records))
	}
	var starts, ends []backlog.Settlement
	for i := range page.Records {
		s := started(&page.Records[i])
		s.Memory.UID = strings.Repeat(fmt.Sprintf("a%d", i), 16)
		starts = append(starts, s)
	}
	if _, err := plain.Exec(script); err != nil {
		t.Fatal(err)
	}
	s := open()
	want := func(what string, left []backlog.Unsettled, err error) {
		t.Helper()
		if err != nil || len(left) != 1 {
			t.Errorf("%s: got %v, %v; want one refused with %q", what, left, err, reason)
			return
		}
		testkit.Equal(t, what+": place of the refused one", left[0].Index, 1)
		testkit.Contains(t, what+": reason", left[0].Err.Error(), reason)
		if errors.Is(left[0].Err, backlog.ErrConflict) {
			t.Errorf("%s: got a conflict, want it refused: %v", what, left[0].Err)
		}
	}
	left, err := s.Begin(t.Context(), starts)
	want("starts", left, err)
	drop := "DROP TRIGGER g"
	if strings.HasPrefix(url, "postgres") {
		drop += " ON banner"
	}
	if _, err := plain.Exec(drop); err != nil {
		t.Fatal(err)
	}
	if left, err := healthy.Begin(t.Context(), starts[1:2]); err != nil || len(left) > 0 {
		t.Fatal(left, err)
	}
	if _, err := plain.Exec(strings.Replace(script, "CREATE FUNCTION", "CREATE OR REPLACE FUNCTION", 1)); err != nil {
		t.Fatal(err)
	}
	for i := range page.Records {
		next := *page.Records[i].Memory
		next.UID, next.Deadline, next.AttemptNo = "", time.Time{}, 0
		ends = append(ends, endedIn(&page.Records[i], backlog.RowSuccess, next))
	}
	left, err = s.Rehearse(t.Context(), ends)
	want("rehearsal of the ends", left, err)
	left, err = s.Settle(t.Context(), ends)
	want("ends", left, err)
}

// Rows that end the transaction in which they are written, by RAISE(ROLLBACK), are no more
// than the others' delay, however many they are.
func TestManyRowsThatRollBack(t *testing.T) {
	f := newFile(t, `CREATE TABLE BACKLOG (id INTEGER PRIMARY KEY, status TEXT, date_inserted TEXT);
		WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 300) INSERT INTO BACKLOG SELECT i, 'NEW', '2026-02-10 01:00:00' FROM n;
		CREATE TRIGGER guard AFTER UPDATE ON BACKLOG WHEN new.id % 3 = 0 BEGIN SELECT raise(ROLLBACK, 'not this one'); END`)
	s := f.store(plainMapping())
	records := lane(t, s, backlog.Fresh)
	group := successes(records)
	for _, x := range []struct {
		name   string
		settle func(context.Context, []backlog.Settlement) ([]backlog.Unsettled, error)
		want   string
	}{
		{"rehearsal", s.Rehearse, "0"}, {"settlement", s.Settle, "200"},
	} {
		left, err := x.settle(t.Context(), group)
		if err != nil || len(left) != 100 {
			t.Fatalf("%s: %d are left, %v", x.name, len(left), err)
		}
		for _, u := range left {
			if records[u.Index].Key.Part(0).(int64)%3 != 0 || !strings.Contains(u.Err.Error(), "not this one") {
				t.Errorf("%s: row %v: %v", x.name, records[u.Index].Key, u.Err)
			}
		}
		f.wantRows("SELECT count(*) FROM BACKLOG WHERE status = 'SUCCESS'", x.want)
	}
}

// Of rows that cannot all be dead, as under UNIQUE, OnDead is called for the one alone that
// becomes it: by a rejection, by two at a time, or by its age.
func TestOnDeadOfRivals(t *testing.T) {
	one := []string{"CREATE UNIQUE INDEX i ON jobs (u) WHERE status = 'DEAD'"}
	generated := []string{"ALTER TABLE jobs ADD v INTEGER AS (CASE WHEN status = 'DEAD' THEN u END)", "CREATE UNIQUE INDEX i ON jobs (v)"}
	t.Run("sqlite", func(t *testing.T) { testRivals(t, onSQLite, one) })
	t.Run("postgres", func(t *testing.T) { testRivals(t, onPostgres, one) })
	t.Run("mysql", func(t *testing.T) { testRivals(t, onMySQL, generated) })
}

func testRivals(t *testing.T, d testDatabase, unique []string) {
	for _, concurrency := range []int{1, 8} {
		b := newSickbed(t, d, refusal{script: append([]string{
			"UPDATE jobs SET at = '2026-02-10 11:00:00' WHERE id > 20", "UPDATE jobs SET u = id % 10", "DELETE FROM jobs WHERE id > 60",
		}, unique...)})
		var mu sync.Mutex
		var told []string
		e := &backlog.Engine{
			Store: b.Table, Concurrency: concurrency, Now: func() time.Time { return noon },
			Handler: backlog.HandlerFunc(func(context.Context, *backlog.Record) error { return backlog.Reject(nil) }),
			OnDead: backlog.HandlerFunc(func(_ context.Context, r *backlog.Record) error {
				mu.Lock()
				defer mu.Unlock()
				told = append(told, r.Key.String())
				return nil
			}),
		}
		report := backlog.Report{}
		for range 8 { // ten refused in a row can end one
			rep, _ := e.Pass(t.Context(), backlog.Pass{MaxAge: 24 * time.Hour, Widest: true})
			report.Rejected += rep.Rejected
			report.Expired += rep.Expired
			report.Refused += rep.Refused
		}
		var dead []string
		rows, err := b.plain.Query("SELECT id FROM jobs WHERE status = 'DEAD'")
		if err != nil {
			t.Fatal(err)
		}
		for rows.Next() {
			var id string
			if err := rows.Scan(&id); err != nil {
				t.Fatal(err)
			}
			dead = append(dead, id)
		}
		if err := rows.Err(); err != nil {
			t.Fatal(err)
		}
		slices.Sort(told)
		slices.Sort(dead)
		if !slices.Equal(told, dead) || len(dead) != 10 || report.Rejected+report.Expired != 10 {
			t.Errorf("concurrency %d: OnDead was called for %v, dead are %v; %+v", concurrency, told, dead, report)
		}
	}
}
