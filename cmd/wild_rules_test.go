package cmd

import (
	"bytes"
	"database/sql"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"backlog/internal/testkit"
	"backlog/internal/testserver"
)

// A wildRule is a peculiarity that tables have, and what becomes of a pass
// over such a one. Times in it are about noon.
type wildRule struct {
	name string
	on   []wildKind // nil: all
	sql  string     // what its program has done; OURS is the schema
	cfg  string     // the configuration of the table and its statuses
	as   string     // statements about THEROLE, the user that we are then; "": the tables' owner
	fail bool       // the handler does

	handled string   // the records that it was given, in this order
	refused string   // why no record was touched, with … for anything; "": there was a pass
	warns   []string // what is said beforehand
	says    []string // how rows are understood; nil: not looked at
	rows    string   // a query, and the rows that it returns afterwards
	want    []string
}

var wildKinds = []wildKind{inSQLite, inPostgres, inMySQL}

// testWildRules runs a pass for each. A pass that is refused is so before the
// first handler call.
func testWildRules(t *testing.T, rules []wildRule) {
	for _, r := range rules {
		on := r.on
		if on == nil {
			on = wildKinds
		}
		for _, k := range on {
			t.Run(r.name+"/"+k.name, func(t *testing.T) {
				t.Parallel()
				r.test(t, k)
			})
		}
	}
}

func (r wildRule) test(t *testing.T, k wildKind) {
	t.Helper()
	db, at := k.make(t)
	here := ownNames.FindString(at)
	mustExec(t, db, strings.ReplaceAll(r.sql, "OURS", here))
	if r.as != "" {
		at = k.asRole(t, db, at, r.as)
	}
	handled, cfg := filepath.Join(t.TempDir(), "handled"), strings.ReplaceAll(r.cfg, "OURS", here)
	if r.refused == "" && len(r.warns) > 0 {
		_, out, _ := wildRun(t, at, handled, cfg, r.fail, "check")
		for _, w := range r.warns {
			if !strings.Contains(withoutAddress(out), "warn  note        "+w+"\n") {
				t.Errorf("check does not say %q:\n%s", w, out)
			}
		}
	}
	status, log := wildOnce(t, at, handled, cfg, r.fail)
	said := withoutAddress(log)
	if r.refused != "" {
		if last := said[strings.LastIndex(said, "\nbacklog: ")+1:]; status != exitFailed || !testkit.Matches(last, "backlog: "+r.refused+"\n") {
			t.Errorf("exit status %d, want it refused:\n got %s\nwant %s", status, last, r.refused)
		}
	} else if status != exitDone {
		t.Errorf("exit status %d:\n%s", status, said)
	}
	var warned, understood []string
	for _, line := range strings.Split(said, "\n") {
		if _, note, ok := strings.Cut(line, `level=INFO msg="found at the table" note=`); ok {
			warned = append(warned, strings.Trim(note, `"`))
		}
		if _, msg, ok := strings.Cut(line, "level=WARN msg="); ok && !strings.Contains(line, " tier=") {
			warned = append(warned, strings.Trim(msg, `"`))
		}
		if _, row, ok := strings.Cut(line, `msg="as understood" row=`); ok {
			understood = append(understood, strings.Trim(row, `"`))
		}
	}
	if !reflect.DeepEqual(warned, r.warns) {
		t.Errorf("warnings:\n got %q\nwant %q", warned, r.warns)
	}
	if r.says != nil && !reflect.DeepEqual(understood, r.says) {
		t.Errorf("rows as they are understood:\n got %q\nwant %q", understood, r.says)
	}
	ids, err := os.ReadFile(handled)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	if got := strings.Join(strings.Fields(string(ids)), " "); got != r.handled {
		t.Errorf("handled: got %s, want %s", got, r.handled)
	}
	if r.rows == "" {
		return
	}
	if got := rowsOf(t, db, strings.ReplaceAll(r.rows, "OURS", here)); !reflect.DeepEqual(got, r.want) {
		t.Errorf("%s:\n got %q\nwant %q", r.rows, got, r.want)
	}
}

// withoutAddress leaves out what is another one in each run.
func withoutAddress(log string) string {
	return ownNames.ReplaceAllString(log, "OURS")
}

// wildOnce runs a pass of the widest tier at noon, in this process.
func wildOnce(t *testing.T, at, handled, cfg string, fail bool) (status int, log string) {
	t.Helper()
	status, _, log = wildRun(t, at, handled, cfg, fail, "once", "--max-age", "7d")
	return status, log
}

// wildRun runs a command with the configuration, at noon.
func wildRun(t *testing.T, at, handled, cfg string, fail bool, args ...string) (status int, printed, log string) {
	t.Helper()
	exit := 0
	if fail {
		exit = 1
	}
	file := filepath.Join(t.TempDir(), "schedule.yaml")
	text := fmt.Sprintf("database: %q\n%s\nstate: none\nlog: {format: text, level: debug}\nhandler: {exec: [sh, -c, 'echo \"$BACKLOG_ID\" >>\"$0\"; exit %d', %q], concurrency: 1}\ntiers: [{max_age: 7d, every: 1h}]\n",
		at, strings.TrimSpace(cfg), exit, handled)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	status = Main(append(args, "--config", file, "--now", "2026-02-10T12:00:00Z"), strings.NewReader(""), &out, &errs)
	return status, out.String(), errs.String()
}

// asRole makes a user of the test's own, about whom the statements say what
// they may, and returns the URL for them.
func (k wildKind) asRole(t *testing.T, db *sql.DB, at, statements string) string {
	t.Helper()
	u, err := url.Parse(at)
	if err != nil {
		t.Fatal(err)
	}
	name, pass := testserver.Name(ownPrefix), testserver.Name(ownPrefix)
	role, end := "'"+name+"'@'%'", "DROP USER '"+name+"'@'%'"
	if k.name == inPostgres.name {
		role, end = name, "DROP OWNED BY "+name+"; DROP ROLE "+name
	}
	u.User = url.UserPassword(name, pass)
	text := strings.ReplaceAll(strings.ReplaceAll(k.user, "THEROLE", role), "THEPASSWORD", "'"+pass+"'")
	mustExec(t, db, text+strings.ReplaceAll(statements, "THEROLE", role))
	t.Cleanup(func() { mustExec(t, db, end) })
	return u.String()
}
