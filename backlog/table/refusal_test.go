package table_test

import (
	"errors"
	"strings"
	"testing"

	"backlog/backlog"
	"backlog/backlog/mapping"
)

// TestReachOfARefusal: whose trouble a refusal is, is told by what the constraint or the
// trigger looks at beside the status.
func TestReachOfARefusal(t *testing.T) {
	const (
		create = "CREATE TABLE jobs (id INTEGER PRIMARY KEY, status VARCHAR(20), date_inserted VARCHAR(30), account VARCHAR(20), provider VARCHAR(20), n INTEGER"
		row    = "\nINSERT INTO jobs (id, status, date_inserted, account, n) VALUES (1, 'NEW', '2026-02-10 11:00:00', 'a', 3)"
		other  = "\nINSERT INTO jobs (id, status, date_inserted, account) VALUES (2, 'SUCCESS', '2026-02-10 11:00:00', 'a')"
		plain  = create + ")" + row
	)
	pgTrigger := func(when, body string) string {
		return plain + "\nCREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN " + body + " RETURN new; END $$" +
			"\nCREATE TRIGGER t BEFORE UPDATE ON jobs FOR EACH ROW " + when + " EXECUTE FUNCTION f()"
	}
	liteTrigger := func(rest string) string {
		return plain + "\nCREATE TRIGGER t BEFORE UPDATE OF status ON jobs " + rest
	}
	myTrigger := func(body string) string {
		return plain + "\nCREATE TRIGGER t BEFORE UPDATE ON jobs FOR EACH ROW " + body
	}
	kinds := "CREATE TABLE kinds (kind varchar(20) PRIMARY KEY)\nINSERT INTO kinds VALUES ('NEW')\n" + plain
	pairs := "CREATE TABLE pairs (account varchar(20), kind varchar(20), PRIMARY KEY (account, kind))\nINSERT INTO pairs VALUES ('a', 'NEW')\n" + plain
	const signal = "SIGNAL SQLSTATE '45000' SET message_text = 'not today'; "
	for _, x := range []struct {
		name           string
		all            string // for each database that has none of its own
		sqlite, pg, my string // "-": the case is not this one's
		change         func(*mapping.Mapping)
		want           backlog.Reach
		says           string
	}{
		{name: "UNIQUE", all: create + ", UNIQUE (account, status))" + row + other, want: backlog.OneRow, says: "this row does not take"},
		{
			name: "partial UNIQUE",
			all:  plain + other + "\nCREATE UNIQUE INDEX one ON jobs (account) WHERE status = 'SUCCESS'",
			my:   "-",
			want: backlog.OneRow,
			says: "this row does not take",
		},
		{
			name:   "exclusion",
			sqlite: "-",
			my:     "-",
			want:   backlog.OneRow,
			says:   "this row does not take",
			pg:     create + ", EXCLUDE USING hash (account WITH =) WHERE (status = 'SUCCESS'))" + row + other,
		},
		{
			name: "CHECK of the status",
			all:  create + ", CHECK (status IN ('NEW', 'ERROR')))" + row,
			want: backlog.EveryRow,
			says: "change it to one that the table takes",
		},
		{
			name: "CHECK of the column",
			all:  strings.Replace(create, "status VARCHAR(20)", "status VARCHAR(20) CHECK (status <> 'SUCCESS')", 1) + ")" + row,
			want: backlog.EveryRow,
			says: "change it to one that the table takes",
		},
		{
			name: "CHECK that ties it to what the handler fills",
			all:  create + ", CONSTRAINT sent CHECK (status <> 'SUCCESS' OR provider IS NOT NULL))" + row,
			want: backlog.HandlerDecides,
			says: "only by what the row has in provider, which the handler may write",
		},
		{
			name: "the same after an error",
			all:  create + ", CONSTRAINT sent CHECK (status <> 'ERROR' OR provider IS NOT NULL))" + row,
			want: backlog.HandlerDecides,
			says: "statuses.error: table jobs takes",
		},
		{
			name: "an error that is worse",
			all:  create + ", CONSTRAINT a CHECK (status <> 'SUCCESS' OR provider IS NOT NULL), CONSTRAINT b CHECK (status <> 'ERROR'))" + row,
			want: backlog.EveryRow,
			says: "statuses.error: table jobs does not take",
		},
		{
			name: "CHECK with the date of insertion",
			all:  create + ", CHECK (status = 'NEW' OR date_inserted < '2026'))" + row,
			want: backlog.OneRow,
			says: "this row does not take",
		},
		{
			name:   "CHECK of what is counted",
			all:    create + ", CHECK (n < 4))" + row,
			want:   backlog.OneRow,
			says:   "this row does not take",
			change: func(m *mapping.Mapping) { m.Touch = []mapping.Assignment{set("n", text("+1"))} },
		},
		{
			name:   "an overflow of what is counted",
			sqlite: "-",
			all:    strings.Replace(plain, ", 3)", ", 2147483647)", 1),
			want:   backlog.OneRow,
			says:   "this row does not take",
			change: func(m *mapping.Mapping) { m.Touch = []mapping.Assignment{set("n", text("+1"))} },
		},
		{
			name:   "foreign key of the status",
			sqlite: "-",
			all:    kinds + "\nALTER TABLE jobs ADD CONSTRAINT k FOREIGN KEY (status) REFERENCES kinds (kind)",
			want:   backlog.EveryRow,
			says:   "change it to one that the table takes",
		},
		{
			name:   "foreign key with another column",
			sqlite: "-",
			all:    pairs + "\nALTER TABLE jobs ADD CONSTRAINT k FOREIGN KEY (account, status) REFERENCES pairs (account, kind)",
			want:   backlog.OneRow,
			says:   "this row does not take",
		},
		{
			name: "NOT NULL of what is computed",
			my:   "-",
			all:  create + ", g VARCHAR(20) GENERATED ALWAYS AS (CASE WHEN status = 'SUCCESS' THEN provider ELSE 'x' END) STORED NOT NULL)" + row,
			want: backlog.HandlerDecides,
			says: "which the handler may write",
		},
		{
			name:   "trigger that names the status alone",
			sqlite: liteTrigger("WHEN new.status = 'SUCCESS' BEGIN SELECT raise(ABORT, 'not today'); END"),
			pg:     pgTrigger("WHEN (new.status = 'SUCCESS')", "RAISE 'not today';"),
			my:     myTrigger("IF new.status = 'SUCCESS' THEN " + signal + "END IF"),
			want:   backlog.EveryRow,
			says:   "not today",
		},
		{
			name:   "trigger that asks for another column",
			sqlite: liteTrigger("WHEN new.status = 'SUCCESS' AND new.provider IS NULL BEGIN SELECT raise(ABORT, 'not today'); END"),
			pg:     pgTrigger("", "IF new.status = 'SUCCESS' AND new.provider IS NULL THEN RAISE 'not today' USING errcode = 'AB001'; END IF;"),
			my:     myTrigger("IF new.status = 'SUCCESS' AND new.provider IS NULL THEN " + signal + "END IF"),
			want:   backlog.HandlerDecides,
			says:   "in provider, which the handler may write",
		},
		{
			name:   "trigger that has the whole row",
			sqlite: "-",
			my:     "-",
			pg:     pgTrigger("", "IF to_jsonb(new)->>'provider' IS NULL THEN RAISE 'not today'; END IF;"),
			want:   backlog.HandlerDecides,
			says:   "the row as a whole",
		},
		{
			name:   "trigger that undoes it for some",
			sqlite: liteTrigger("WHEN new.n = 3 BEGIN SELECT raise(IGNORE); END"),
			pg:     pgTrigger("", "IF new.n = 3 THEN RETURN NULL; END IF;"),
			my:     myTrigger("IF new.n = 3 THEN SET new.status = old.status; END IF"),
			want:   backlog.HandlerDecides,
			says:   "statuses.success is undone",
		},
		{
			name:   "trigger beside one that only takes notes",
			sqlite: liteTrigger("BEGIN SELECT raise(ABORT, 'not today'); END") + "\nCREATE TABLE log (t TEXT)\nCREATE TRIGGER notes AFTER UPDATE ON jobs BEGIN INSERT INTO log VALUES (new.provider); END",
			my:     myTrigger("BEGIN "+signal+"END") + "\nCREATE TABLE log (t TEXT)\nCREATE TRIGGER notes AFTER UPDATE ON jobs FOR EACH ROW INSERT INTO log VALUES (new.provider)",
			pg: pgTrigger("", "RAISE 'not today';") + "\nCREATE FUNCTION g() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO log VALUES (new.provider); RETURN new; END $$" +
				"\nCREATE TRIGGER notes AFTER UPDATE ON jobs FOR EACH ROW EXECUTE FUNCTION g()",
			want: backlog.EveryRow,
			says: "not today",
		},
		{
			name:   "what is in the way of a trigger",
			want:   backlog.OneRow,
			says:   "this row does not take",
			sqlite: plain + "\nCREATE TABLE log (n INTEGER PRIMARY KEY)\nINSERT INTO log VALUES (3)\nCREATE TRIGGER t AFTER UPDATE ON jobs BEGIN INSERT INTO log VALUES (new.n); END",
			pg:     "CREATE TABLE log (n INTEGER PRIMARY KEY)\nINSERT INTO log VALUES (3)\n" + pgTrigger("", "INSERT INTO log VALUES (new.n);"),
			my:     "CREATE TABLE log (n INTEGER PRIMARY KEY)\nINSERT INTO log VALUES (3)\n" + myTrigger("INSERT INTO log VALUES (new.n)"),
		},
	} {
		for on, script := range map[string]string{"sqlite": x.sqlite, "postgres": x.pg, "mysql": x.my} {
			if script == "" {
				script = x.all
			}
			if script == "-" {
				continue
			}
			t.Run(x.name+"/"+on, func(t *testing.T) {
				t.Parallel()
				_, err := triedOn(t, on, script, x.change)
				if err == nil || backlog.ReachOf(err) != x.want || !strings.Contains(err.Error(), x.says) {
					t.Errorf("reach %d, want %d: %v\nwant %s", backlog.ReachOf(err), x.want, err, x.says)
				}
			})
		}
	}
}

// A damaged page that only writes read is named as damage, and no trigger is blamed for it.
func TestDamageIsNotARefusal(t *testing.T) {
	f := newFile(t, `CREATE TABLE BACKLOG (id INTEGER PRIMARY KEY, status TEXT, date_inserted TEXT);
		CREATE INDEX by_upper ON BACKLOG (upper(status));
		INSERT INTO BACKLOG VALUES (1, 'NEW', '2026-02-10 11:00:00')`)
	// The index begins at the page of the table.
	f.exec("PRAGMA writable_schema = ON; UPDATE sqlite_schema SET rootpage = (SELECT rootpage FROM sqlite_schema WHERE name = 'BACKLOG') WHERE name = 'by_upper'")
	store := f.store(plainMapping())
	records, _ := readAll(t, store, backlog.Query{Lane: backlog.Fresh, Now: noon, Limit: 10})
	err := store.Try(t.Context(), backlog.Settlement{Record: &records[0], Target: backlog.RowSuccess, At: noon})
	refusal, ok := errors.AsType[*backlog.Refusal](err)
	if !ok || refusal.Reach != backlog.EveryRow || !strings.Contains(err.Error(), "is damaged, or the disk cannot read it: ") || strings.Contains(err.Error(), "trigger") {
		t.Errorf("got %v", err)
	}
}
