package table_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"backlog/backlog"
	"backlog/backlog/mapping"
	"backlog/backlog/table"
)

// wantWaits lets the records 1 and 2 fail at noon and then finds them due a
// minute later, not before: in the same process and in one that learns from
// what was written.
func wantWaits(t *testing.T, f *file, m mapping.Mapping, p *backlog.Policy) {
	t.Helper()
	s := f.store(m)
	if got := handled(t, s, p, noon, ""); got != "1 2" {
		t.Errorf("at noon: %q, want 1 2", got)
	}
	for _, again := range []*table.Table{s, f.store(m)} {
		for after, want := range map[time.Duration]string{0: "", time.Minute - time.Second: "", time.Minute: "1 2"} {
			records, unreadable := readAll(t, again, backlog.Query{Lane: backlog.Failed, Limit: 10, Now: noon.Add(after)})
			if len(unreadable) > 0 {
				t.Errorf("%d rows cannot be read: %v", len(unreadable), unreadable[0])
			}
			wantKeys(t, fmt.Sprint(after, " after the failure"), records, want)
		}
	}
	wantGoodPlans(t, "after the failure", s)
}

// TestWaitsBesideDates: the date of insertion is too coarse, or of a type that
// another column turns into something else. The policy's columns are those that
// init adds or empty ones that are there, in the form of most databases then.
func TestWaitsBesideDates(t *testing.T) {
	text, number := "'2026-02-10 12:00:00'", ""
	for _, x := range []struct {
		decl, added  string // the type of the date, and of columns that are there; "": init adds them
		as, inserted string
		zone         *time.Location
		want         string // what is written; "": not looked at
	}{
		{"TEXT", "", "", "'2026-02-10'", time.UTC, text},
		{"DATE", "", "", "'2026-02-10'", time.UTC, text},
		{"DATE", "TIMESTAMP", "", "'2026-02-10'", kolkata, "'2026-02-10 17:30:00'"},
		{"TEXT", "VARCHAR(30)", "text:20060102", "'20260210'", time.UTC, text},
		{"INTEGER", "", "text:20060102", "20260210", time.UTC, text},
		{"TEXT", "", "", "'2026-02-10 11:00'", time.UTC, text},
		{"TEXT", "TEXT", "text:2006-01-02 15", "'2026-02-10 11'", time.UTC, text},
		{"REAL", "TEXT", "", "2461081.9", time.UTC, text},
		{"REAL", "REAL", "", "2461081.9", time.UTC, number},
		{"REAL", "VARCHAR", "julian", "2461081.9", kolkata, "'2026-02-10 17:30:00'"},
		{"INTEGER", "TEXT", "", "1770721200000", time.UTC, text},
		{"REAL", "TEXT", "", "1770721200.5", time.UTC, text},
		{"INTEGER", "TEXT", "", "20260210110000", time.UTC, text},
		{"INTEGER", "INTEGER", "", "1770721200", time.UTC, "1770724800"},
	} {
		for _, p := range []*backlog.Policy{fibonacci(), planning(3, time.Minute)} {
			t.Run(fmt.Sprintf("%s %s beside %s, planned %t", x.decl, x.inserted, x.added, p.Planned), func(t *testing.T) {
				f := newFile(t, "CREATE TABLE BACKLOG (id INTEGER PRIMARY KEY, status TEXT, date_inserted "+x.decl+")")
				if x.added != "" {
					f.exec(fmt.Sprintf("ALTER TABLE BACKLOG ADD COLUMN last_failure %[1]s; ALTER TABLE BACKLOG ADD COLUMN next_try %[1]s", x.added))
				}
				f.exec("INSERT INTO BACKLOG (id, status, date_inserted) VALUES (1, 'NEW', " + x.inserted + "), (2, 'ERROR', " + x.inserted + ")")
				m := retryMapping(p)
				m.Inserted.As, m.Inserted.Zone = x.as, x.zone
				createIndexes(f, m)
				wantWaits(t, f, m, p)
				if x.want != "" {
					f.wantRows("SELECT DISTINCT last_failure FROM BACKLOG", x.want)
				}
			})
		}
	}
}

// TestWaitsThatAColumnCannotHold: one that holds dates alone is none for a
// policy, whoever wrote them, and whenever they come to light.
func TestWaitsThatAColumnCannotHold(t *testing.T) {
	const (
		dates = "policy: column last_failure holds times as text 2026-01-02 (no zone, read as UTC), which does not tell one second from the next: waits would be lost"
		cure  = "; name another under columns: of the policy, which `backlog init` adds"
		row   = "INSERT INTO BACKLOG VALUES (1, 'ERROR', '2026-02-10 11:00:00', 1, '2026-02-09', NULL, 0)"
	)
	f := newFile(t, fmt.Sprintf(usualTable, "TEXT"))
	early := f.store(retryMapping(fibonacci())) // nothing has shown it yet
	f.exec(row)
	for _, p := range []*backlog.Policy{fibonacci(), planning(3, time.Minute)} {
		f.wantRefused(retryMapping(p), "table BACKLOG: "+dates+cure)
	}
	_, err := early.Pending(context.Background(), backlog.Query{Lane: backlog.Failed, Now: noon, Since: noon.Add(-ages), Limit: 1})
	if p := (*table.Problem)(nil); !errors.As(err, &p) || err.Error() != dates+cure {
		t.Errorf("Pending: got %v", err)
	}
	f.store(plainMapping()) // without a policy nobody minds

	f.exec("UPDATE BACKLOG SET last_failure = NULL, next_try = '2026-02-09 12:00'")
	f.store(retryMapping(fibonacci()))
	f.wantRefused(retryMapping(planning(3, time.Minute)), "table BACKLOG: "+strings.NewReplacer("last_failure", "next_try", "02 (", "02 15:04 (").Replace(dates)+cure)

	m := tasksMapping() // whose date is that of the last failure
	f = newFile(t, tasks)
	f.exec("UPDATE tasks SET updated_at = date(updated_at)")
	f.wantRefused(m, "table tasks: "+strings.Replace(dates, "last_failure", "updated_at", 1)+cure)
}

// TestInitOfStrictTable adds columns of types that such a table knows.
func TestInitOfStrictTable(t *testing.T) {
	for decl, inserted := range map[string]string{"TEXT": "'2026-02-10 11:00:00'", "INTEGER": "1770721200", "REAL": "2461081.9", "ANY": "'2026-02-10'"} {
		for _, p := range []*backlog.Policy{fibonacci(), planning(3, time.Minute)} {
			f := newFile(t, "CREATE TABLE BACKLOG (id INTEGER PRIMARY KEY, status TEXT, date_inserted "+decl+") STRICT")
			f.exec("INSERT INTO BACKLOG VALUES (1, 'NEW', " + inserted + "), (2, 'ERROR', " + inserted + ")")
			m := retryMapping(p)
			createIndexes(f, m)
			wantWaits(t, f, m, p)
			if p.Planned {
				f.wantRows("SELECT DISTINCT in_retry, typeof(in_retry) FROM BACKLOG", "1 'integer'")
			}
		}
	}
}
