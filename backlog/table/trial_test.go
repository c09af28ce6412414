package table_test

import (
	"cmp"
	"database/sql"
	"errors"
	"slices"
	"strings"
	"testing"

	"backlog/backlog"
	"backlog/backlog/mapping"
	"backlog/backlog/table"
)

// TestWhatStaysPendingIsRefused, by a row that there is.
func TestWhatStaysPendingIsRefused(t *testing.T) {
	const create = "CREATE TABLE BACKLOG (id INTEGER PRIMARY KEY, status TEXT NOT NULL COLLATE NOCASE CHECK (length(status) > 1), date_inserted TEXT, kind INTEGER, done INTEGER)"
	const plain = "; INSERT INTO BACKLOG VALUES (1, 'NEW', '2026-02-10 11:00:00', 1, 0)"
	row := func(values string) string { return "; INSERT INTO BACKLOG VALUES " + values }
	when := func(list ...mapping.Condition) func(*mapping.Mapping) {
		return func(m *mapping.Mapping) {
			m.New, m.Error = mapping.State{When: list}, mapping.State{Keep: true}
			m.Success = mapping.State{Set: []mapping.Assignment{set("done", text("2"))}}
		}
	}
	same := func(m *mapping.Mapping) { m.Success = is(text("New")) }
	const wanted = `statuses.success: with "status" = 'New' a record that succeeded would still be new to the database and be tried for ever; write what does not meet the condition of new`
	const wantedSet = `statuses.success: with "done" = 2 a record that succeeded would still be new to the database and be tried for ever; write what does not meet the condition of new`
	for _, x := range []struct {
		name, rows string
		change     func(*mapping.Mapping)
		want       string // "": none
	}{
		{name: "a row in the state", rows: row("(1, 'NEW', '2026-02-10 11:00:00', 1, 0)"), change: same, want: wanted},
		{
			name:   "within a filter",
			rows:   plain,
			change: func(m *mapping.Mapping) { same(m); m.Where = []mapping.Condition{cond("kind", text("1"))} },
			want:   wanted,
		},
		{
			name:   "in error",
			rows:   row("(1, 'ERROR', '2026-02-10 11:00:00', 1, 0)"),
			change: func(m *mapping.Mapping) { m.Success = is(text("error")) },
			want:   strings.NewReplacer("New", "error", "be new", "be in error", "of new", "of error").Replace(wanted),
		},
		{
			name:   "dead",
			rows:   plain,
			change: func(m *mapping.Mapping) { m.Dead = is(text("new")) },
			want:   `statuses.dead: with "status" = 'new' a dead record would still be new to the database and be tried for ever; write what does not meet the condition of new`,
		},
		{
			name:   "within a filter of several",
			rows:   plain,
			change: func(m *mapping.Mapping) { same(m); m.Where = []mapping.Condition{cond("kind", text("1"), text("2"))} },
			want:   wanted,
		},
		{
			name:   "a list",
			rows:   row("(1, 'A', '2026-02-10 11:00:00', 1, 0)"),
			change: when(cond("kind", text("1"), text("2")), cond("done", text("0"), text("2"))),
			want:   wantedSet,
		},
		{
			name:   "a list that it leaves",
			rows:   row("(1, 'AA', '2026-02-10 11:00:00', 1, 0)"),
			change: when(cond("kind", text("1"), text("2")), cond("done", text("0"), text("1"))),
		},
		{name: "NULL", rows: row("(1, 'AA', '2026-02-10 11:00:00', 1, NULL)"), change: when(cond("done", null))},
		{name: "not NULL", rows: row("(1, 'AA', '2026-02-10 11:00:00', NULL, 0)"), change: when(cond("kind", null)), want: wantedSet},
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
	f, m := newFile(t, "CREATE TABLE BACKLOG (id INTEGER PRIMARY KEY, status TEXT COLLATE NOCASE, date_inserted TEXT, failures INTEGER, last_failure TEXT); INSERT INTO BACKLOG (id, status, date_inserted) VALUES (1, 'NEW', '2026-02-10 11:00:00')"), plainMapping()
	m.Error = is(text("new"))
	want := `statuses.error is one of statuses.new to the database, with "status" = 'new': failed records are not told from new ones, and age alone decides when they are tried`
	s := f.store(m)
	if err := tried(s); err != nil {
		t.Error(err)
	}
	if got := s.Notes(); !slices.Contains(got, want) {
		t.Errorf("Notes: got %q, want %q", got, want)
	}
	m.Policy = retryColumns(fibonacci(), "failures", "last_failure")
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

// A trialCase is a table jobs of one row, 1, that a settlement would fail on, or
// not.
type trialCase struct {
	name   string
	sqlite string // statements, each on a line; "": the case is not SQLite's
	server string // for both servers where they share it
	pg, my string
	change func(*mapping.Mapping)
	want   string // a part of the error for each database; "": none
}

// script returns statements, each on a line.
func script(statements ...string) string { return strings.Join(statements, "\n") }

// TestTrialWrite: what the database would refuse after the handler has worked is
// refused before, in words that name the column, the value and what to do, and
// nothing of it stays.
func TestTrialWrite(t *testing.T) {
	const jobs = "CREATE TABLE jobs (id INTEGER PRIMARY KEY, status VARCHAR(20) NOT NULL, date_inserted VARCHAR(30), other VARCHAR(17), n INTEGER)"
	const row = "INSERT INTO jobs VALUES (1, 'NEW', '2026-02-10 11:00:00', 'N', 1)"
	touch := func(column string, v mapping.Value) func(*mapping.Mapping) {
		return func(m *mapping.Mapping) { m.Touch = []mapping.Assignment{set(column, v)} }
	}
	check := strings.Replace(jobs, "n INTEGER", "n INTEGER, CHECK (status <> 'SUCCESS' OR n > 1)", 1)
	for _, x := range []trialCase{
		{name: "taken", sqlite: script(jobs, row), server: script(jobs, row)},
		{
			name:   "a refused status",
			sqlite: script(check, row),
			server: script(check, row),
			want:   "statuses.success: table jobs takes Qstatus` = 'SUCCESS' only by what the row has in n, which the handler may write: ",
		},
		{
			name: "NOT NULL that a trigger breaks",
			my: script(
				jobs,
				row,
				"CREATE TRIGGER t BEFORE UPDATE ON jobs FOR EACH ROW SET new.status = NULL",
			),
			pg: script(
				jobs,
				row,
				"CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN new.status = NULL; RETURN new; END $$",
				"CREATE TRIGGER t BEFORE UPDATE ON jobs FOR EACH ROW EXECUTE FUNCTION f()",
			),
			sqlite: script(
				jobs,
				row,
				"CREATE TRIGGER t AFTER UPDATE OF status ON jobs BEGIN UPDATE jobs SET status = NULL; END",
			),
			want: "statuses.success: table jobs does not take Qstatus` = 'SUCCESS': ",
		},
		{
			name: "a trigger that raises",
			my: script(
				jobs,
				row,
				"CREATE TRIGGER t BEFORE UPDATE ON jobs FOR EACH ROW SIGNAL SQLSTATE '45000' SET message_text = 'not today'",
			),
			pg: script(
				jobs,
				row,
				"CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'not today'; END $$",
				"CREATE TRIGGER t BEFORE UPDATE ON jobs FOR EACH ROW EXECUTE FUNCTION f()",
			),
			sqlite: script(
				jobs,
				row,
				"CREATE TRIGGER t BEFORE UPDATE ON jobs BEGIN SELECT raise(ROLLBACK, 'not today'); END",
			),
			want: "not today",
		},
		{
			name: "a trigger that undoes",
			my: script(
				jobs,
				row,
				"CREATE TRIGGER t BEFORE UPDATE ON jobs FOR EACH ROW SET new.status = old.status",
			),
			pg: script(
				jobs,
				row,
				"CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$",
				"CREATE TRIGGER t BEFORE UPDATE ON jobs FOR EACH ROW EXECUTE FUNCTION f()",
			),
			sqlite: script(
				jobs,
				row,
				"CREATE TRIGGER t BEFORE UPDATE ON jobs BEGIN SELECT raise(IGNORE); END",
			),
			want: "statuses.success is undone: a row of table jobs is as it was after it was written, which is the work of a trigger: t",
		},
		{
			name: "a deferred constraint",
			pg: script(
				jobs,
				"CREATE TABLE kinds (kind varchar(20) PRIMARY KEY)",
				"INSERT INTO kinds VALUES ('NEW')",
				row,
				"ALTER TABLE jobs ADD FOREIGN KEY (status) REFERENCES kinds DEFERRABLE INITIALLY DEFERRED",
			),
			want: "statuses.success: table jobs does not take Qstatus` = 'SUCCESS': ",
		},
		{
			name: "a domain", // also of an empty table
			pg:   "CREATE DOMAIN kind AS varchar(20) CHECK (value IN ('NEW', 'ERROR'))\n" + strings.Replace(jobs, "VARCHAR(20)", "kind", 1),
			want: "statuses.success: table jobs does not take Qstatus` = 'SUCCESS': ",
		},
		{
			name:   "a text that is too long",
			server: script(jobs, row),
			change: touch("other", text("now")),
			want:   "Qother` = '2026-02-10 12:00:00': ",
		},
		{
			name:   "the longest text of an error",
			server: script(jobs, row),
			sqlite: script(jobs, row),
			change: func(m *mapping.Mapping) { m.LastError = "other" },
		},
	} {
		for _, on := range []string{"sqlite", "postgres", "mysql"} {
			made := x.sqlite
			quote := `"`
			switch on {
			case "postgres":
				made = cmp.Or(x.pg, x.server)
			case "mysql":
				made = cmp.Or(x.my, x.server)
				quote = "`"
			}
			if made == "" {
				continue
			}
			t.Run(x.name+"/"+on, func(t *testing.T) {
				t.Parallel()
				plain, err := triedOn(t, on, made, x.change)
				want := strings.NewReplacer("Q", quote, "`", quote).Replace(x.want)
				wantProblemLike(t, x.name, err, within(want))
				if p := (*table.Problem)(nil); errors.As(err, &p) && p.Hint == "" {
					t.Errorf("want a hint, got none: %v", err)
				}
				var status, other string
				if err := plain.QueryRow("SELECT status, other FROM jobs").Scan(&status, &other); err == nil && status+other != "NEWN" {
					t.Errorf("the row is %s, %s", status, other)
				}
			})
		}
	}
}

// triedOn makes the table jobs on a database of the kind, by statements a line each, and
// returns what a trial of its rows comes to.
func triedOn(t *testing.T, kind, script string, change func(*mapping.Mapping)) (plain *sql.DB, _ error) {
	t.Helper()
	plain, url := newDatabase(t, kind)
	for text := range strings.SplitSeq(script, "\n") {
		if _, err := plain.Exec(text); err != nil {
			t.Fatal(err)
		}
	}
	m := plainMapping()
	m.Name = "jobs"
	if change != nil {
		change(&m)
	}
	db, err := openDB(t.Context(), url, table.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	s, err := table.New(t.Context(), db, m)
	if err != nil {
		return plain, err
	}
	return plain, tried(s)
}

// newDatabase returns an empty database of the kind, and its URL.
func newDatabase(t *testing.T, kind string) (plain *sql.DB, url string) {
	t.Helper()
	switch kind {
	case "postgres":
		return openPostgres(t)
	case "mysql":
		return newMySQL(t)
	}
	f := newFile(t, "")
	return f.plain, "sqlite:" + f.path
}

// TestTrialOfALockedRow: a row that somebody else has locked says nothing, and
// neither does one that is no longer as it was read.
func TestTrialOfALockedRow(t *testing.T) {
	for _, kind := range []string{"postgres", "mysql"} {
		t.Run(kind, func(t *testing.T) {
			plain, url := newDatabase(t, kind)
			for _, s := range []string{
				"CREATE TABLE jobs (id int PRIMARY KEY, status varchar(20), date_inserted varchar(30))",
				"INSERT INTO jobs VALUES (1, 'NEW', '2026-02-10 11:00:00')",
			} {
				if _, err := plain.Exec(s); err != nil {
					t.Fatal(err)
				}
			}
			m := plainMapping()
			m.Name = "jobs"
			db, err := openDB(t.Context(), url, table.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			s, err := table.New(t.Context(), db, m)
			if err != nil {
				t.Fatal(err)
			}
			records := lane(t, s, backlog.Fresh)
			try := func() error {
				_, err := backlog.TryRecord(t.Context(), s, &records[0], nil, noon)
				return err
			}
			tx, err := plain.Begin()
			if err == nil {
				_, err = tx.Exec("UPDATE jobs SET status = 'TAKEN'")
			}
			if err != nil {
				t.Fatal(err)
			}
			if err := try(); !errors.Is(err, backlog.ErrLocked) {
				t.Errorf("a locked row: got %v", err)
			}
			if err := tx.Commit(); err != nil {
				t.Fatal(err)
			}
			if err := try(); !errors.Is(err, backlog.ErrConflict) {
				t.Errorf("a row that was taken: got %v", err)
			}
		})
	}
}

// TestTrialThatLeavesSomething: what a trigger writes to a table without
// transactions stays, and the server's warning is told.
func TestTrialThatLeavesSomething(t *testing.T) {
	plain, url := newDatabase(t, "mysql")
	for _, s := range []string{
		"CREATE TABLE BACKLOG (id int PRIMARY KEY, status varchar(20), date_inserted datetime)",
		"INSERT INTO BACKLOG VALUES (1, 'NEW', '2026-02-10 11:00:00')",
		"CREATE TABLE seen (status varchar(20)) ENGINE = MyISAM",
		"CREATE TRIGGER t AFTER UPDATE ON BACKLOG FOR EACH ROW INSERT INTO seen VALUES (new.status)",
	} {
		execMySQL(t, plain, s)
	}
	db, err := openDB(t.Context(), url, table.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	s, err := table.New(t.Context(), db, plainMapping())
	if err != nil {
		t.Fatal(err)
	}
	var notes []string
	s.ObserveNotes(func(n string) { notes = append(notes, n) })
	if err := tried(s); err != nil {
		t.Fatal(err)
	}
	if len(notes) != 2 || !strings.Contains(notes[1], "when a trial write was rolled back, the database said: ") {
		t.Errorf("the notes are %q", notes)
	}
	for q, want := range map[string]string{"SELECT count(*) FROM seen": "3", "SELECT status FROM BACKLOG": "NEW"} {
		var got string
		if err := plain.QueryRow(q).Scan(&got); err != nil || got != want {
			t.Errorf("%s: %s, %v", q, got, err)
		}
	}
}

// TestTrialOfTheNewest: a check tries the row that a pass takes first.
func TestTrialOfTheNewest(t *testing.T) {
	f := newFile(t, `CREATE TABLE BACKLOG (id INTEGER PRIMARY KEY, status TEXT, date_inserted TEXT);
		INSERT INTO BACKLOG VALUES (1, 'NEW', '2026-02-08 11:00:00'), (2, 'NEW', '2026-02-10 11:00:00'), (3, 'NEW', NULL), (4, 'NEW', '2026-02-09 11:00:00')`)
	records, err := f.store(plainMapping()).FirstOfEachState(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	wantKeys(t, "new", records["NEW"], "2")
	wantKeys(t, "failed", records["ERROR"], "")
}
