package table_test

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"backlog/backlog"
	"backlog/backlog/mapping"
	"backlog/backlog/table"
	"backlog/internal/testkit"
)

// A tableServer is a database of one kind, as the program that owns it has it.
type tableServer struct {
	name  string
	plain *sql.DB
	url   string
}

func (d tableServer) exec(t *testing.T, script ...string) {
	t.Helper()
	for _, text := range script {
		if _, err := d.plain.Exec(text); err != nil {
			t.Fatalf("%s: %s: %v", d.name, text, err)
		}
	}
}

// open opens a table that can be worked.
func (d tableServer) open(t *testing.T, m mapping.Mapping) *table.Table {
	t.Helper()
	s, err := d.prove(t, m)
	if err != nil {
		t.Fatalf("%s: %v", d.name, err)
	}
	return s
}

func (d tableServer) prove(t *testing.T, m mapping.Mapping) (*table.Table, error) {
	t.Helper()
	db, err := openDB(t.Context(), d.url, table.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	s, err := table.New(t.Context(), db, m)
	if err != nil {
		return nil, err
	}
	return s, s.Prove(t.Context(), noon)
}

// onThreeDatabases runs the test on each kind of database.
func onThreeDatabases(t *testing.T, test func(t *testing.T, d tableServer)) {
	t.Run("SQLite", func(t *testing.T) {
		f := newFile(t, "")
		test(t, tableServer{"SQLite", f.plain, "sqlite:" + f.path + "?synchronous=normal"})
	})
	t.Run("PostgreSQL", func(t *testing.T) {
		plain, url := openPostgres(t)
		test(t, tableServer{"PostgreSQL", plain, url})
	})
	t.Run("MariaDB", func(t *testing.T) {
		plain, url := newMySQL(t)
		test(t, tableServer{"MariaDB", plain, url})
	})
}

// A mixture is what a column holds, in SQL: times around noon in the form of most rows, and
// what is in another one.
type mixture struct {
	name, decl string
	good       func(t time.Time, n int) string // the n-th way to write t
	strays     []string
	lite       []string // what SQLite alone takes
}

func layouts(list ...string) func(time.Time, int) string {
	return func(t time.Time, n int) string { return "'" + t.UTC().Format(list[n%len(list)]) + "'" }
}

var mixtures = []mixture{
	{
		name:   "text",
		decl:   "VARCHAR(40)",
		good:   layouts("2006-01-02 15:04:05", "2006-01-02T15:04:05", "2006-01-02T15:04:05Z", "2006-01-02 15:04:05.000", "2006-01-02T15:04:05.000+00:00", "2006-01-02T15:04"),
		strays: []string{"'1770724801'", "'1770724801000'", "'20260210113000'", "'garbage'", "'2026-02-10'", "'10.02.2026'", "'20.02.2026'", "'2026/02/10 11:30'", "' 2026-02-10 11:30:00'", "'2026-02-10 11:30:00+01:00'"},
		lite:   []string{"1770724801", "1770724801000", "2461082.5", "x'ff'"},
	},
	{
		name:   "text of 14 digits",
		decl:   "VARCHAR(40)",
		good:   layouts("20060102150405"),
		strays: []string{"'2026-02-10 11:30:00'", "'2026-02-10T11:30:00Z'", "'1770724801'", "'garbage'"},
		lite:   []string{"x'ff'"},
	},
	{
		name:   "seconds",
		decl:   "BIGINT",
		good:   func(t time.Time, _ int) string { return strconv.FormatInt(t.Unix(), 10) },
		strays: []string{"1770724801000", "1770724801000000", "20260210113000", "20260210", "1"},
		lite:   []string{"'2026-02-10 11:30:00'", "'garbage'", "2461082.5"},
	},
	{
		name:   "milliseconds",
		decl:   "BIGINT",
		good:   func(t time.Time, _ int) string { return strconv.FormatInt(t.UnixMilli(), 10) },
		strays: []string{"1770724801", "1770724801000000", "20260210"},
		lite:   []string{"'2026-02-10 11:30:00'", "'garbage'"},
	},
}

// TestFormsBesideEachOther: a row of which a time is in another form than that of most is left
// alone and named in each pass, by a store that ran before it came as well as by the next
// one; it stops no other, never dies, and everything that counts or shows rows agrees.
func TestFormsBesideEachOther(t *testing.T) {
	t.Parallel()
	onThreeDatabases(t, func(t *testing.T, d tableServer) {
		for i, x := range mixtures {
			if d.name == "SQLite" {
				x.strays = append(slices.Clip(x.strays), x.lite...)
				x.decl = strings.Replace(x.decl, "BIGINT", "", 1)
			}
			for _, role := range []string{"inserted", "eligible", "expires", "next"} {
				t.Run(x.name+"/"+role, func(t *testing.T) {
					d.checkMixture(t, x, role, fmt.Sprintf("m%d%s", i, role))
				})
			}
		}
	})
}

// checkMixture has the column in the role in which a table has it.
func (d tableServer) checkMixture(t *testing.T, x mixture, role, name string) {
	m := plainMapping()
	m.Name, m.Dead, m.ID = name, is(text("DEAD")), []string{"id"}
	status, at, e := "NEW", noon.Add(-30*time.Minute), &backlog.Engine{}
	switch role {
	case "eligible":
		m.Eligible = &mapping.Time{Column: "at"}
	case "expires":
		m.Expires, at = &mapping.Time{Column: "at"}, noon.Add(30*time.Minute)
	case "next":
		p := planning(3, time.Minute)
		m.Policy, status = retryColumns(p, usualColumns...), "ERROR"
		m.Policy.Next, m.Policy.InRetry = "at", ""
		e.Policy = p
	case "inserted":
		m.Inserted.Column = "at"
	}
	d.exec(t, fmt.Sprintf("CREATE TABLE %s (id BIGINT PRIMARY KEY, status VARCHAR(20), date_inserted VARCHAR(40), at %s, failures BIGINT, last_failure VARCHAR(40))", name, x.decl))
	insert := func(id int, status, value string) {
		d.exec(t, fmt.Sprintf("INSERT INTO %s VALUES (%d, '%s', '2026-02-10 11:00:00', %s, 1, '2026-02-10 11:00:00')", name, id, status, value))
	}
	for i := range 60 { // which make three quarters
		insert(1000+i, "DONE", x.good(at.Add(-time.Duration(i)*time.Minute), i))
	}
	running := d.open(t, m)
	for i := range 6 {
		insert(i, status, x.good(at.Add(time.Duration(i)*time.Minute), i))
	}
	var want []string
	for i, v := range x.strays {
		insert(100+i, status, v)
		want = append(want, strconv.Itoa(100+i))
	}
	for _, s := range []*table.Table{running, d.open(t, m)} {
		for range 2 {
			handled, named := passOver(t, s, e)
			if !slices.Equal(named, want) {
				t.Errorf("a pass names %q, want %q", named, want)
			}
			if len(handled) != 6 {
				t.Errorf("a pass handles %q, want 0 to 5", handled)
			}
			d.exec(t, fmt.Sprintf("UPDATE %s SET status = '%s' WHERE id < 100", name, status))
		}
		d.checkShown(t, s, want)
		before := noon.Add(-ages)
		if role == "inserted" {
			before = noon.Add(23 * time.Hour)
		}
		n, err := expire(t.Context(), s, noon.Add(24*time.Hour), before)
		if err != nil {
			t.Fatal(err)
		}
		var alive int
		d.plain.QueryRow(fmt.Sprintf("SELECT count(*) FROM %s WHERE status = '%s' AND id >= 100 AND id < 1000", name, status)).Scan(&alive)
		if isDated := role == "inserted" || role == "expires"; isDated && (n != 6 || alive != len(want)) {
			t.Errorf("%d rows have expired, and %d that cannot be read are left; want 6 and %d", n, alive, len(want))
		}
		d.exec(t, fmt.Sprintf("UPDATE %s SET status = '%s' WHERE id < 1000", name, status))
	}
}

// passOver runs a pass of a day, and returns the keys of the rows that it handles and names.
func passOver(t *testing.T, s *table.Table, e *backlog.Engine) (handled, named []string) {
	t.Helper()
	run := backlog.Engine{
		Store: s, Policy: e.Policy, Concurrency: 1,
		Handler: backlog.HandlerFunc(func(_ context.Context, r *backlog.Record) error {
			handled = append(handled, r.Key.String())
			return nil
		}),
		Observe: func(ev backlog.Event) {
			if ev.Kind == backlog.UnreadableRow {
				named = append(named, ev.Record.Key.String())
			}
		},
	}
	r, err := run.Pass(t.Context(), backlog.Pass{MaxAge: day, Now: noon})
	if err != nil || r.Unreadable != len(named) {
		t.Errorf("a pass: %+v, %v", r, err)
	}
	slices.Sort(named)
	return handled, named
}

// checkShown checks what is counted, listed and explained.
func (d tableServer) checkShown(t *testing.T, s *table.Table, want []string) {
	t.Helper()
	edges := []time.Duration{day}
	c, err := s.Count(t.Context(), noon, edges)
	if err != nil || c.Unreadable != len(want) || c.Pending() != len(want)+6 {
		t.Errorf("Count: %+v, %v, want %d unreadable", c, err, len(want))
	}
	page, err := s.List(t.Context(), table.Filter{State: "unreadable", Ages: edges}, noon, backlog.Cursor{}, 100)
	if err != nil {
		t.Fatal(err)
	}
	var listed []string
	for _, r := range page.Rows {
		listed = append(listed, r.Key.String())
		if r.Unreadable == nil {
			t.Errorf("row %v is listed, but can be read", r.Key)
		}
	}
	slices.Sort(listed)
	if !slices.Equal(listed, want) {
		t.Errorf("listed are %q, want %q", listed, want)
	}
	for _, id := range want {
		key, err := s.ParseKey(id)
		if err != nil {
			t.Fatal(err)
		}
		row, ok, err := s.Find(t.Context(), key, noon)
		if err != nil || !ok || row.Never(noon) == "" {
			t.Errorf("row %s: %+v, %v: want no pass that takes it", id, row, err)
		}
	}
}

// TestPagesOfTextsInManyWays: where texts divide date and time of day by a space or a T, each
// row of the age is on one page, whatever the pages' size, and whatever the collation; the
// database reads no more of them than a day.
func TestPagesOfTextsInManyWays(t *testing.T) {
	t.Parallel()
	onThreeDatabases(t, func(t *testing.T, d tableServer) {
		collations := map[string][]string{
			"SQLite": {"", "COLLATE NOCASE"}, "PostgreSQL": {"", `COLLATE "C"`, `COLLATE "en-x-icu"`},
			"MariaDB": {"", "COLLATE utf8mb4_bin", "COLLATE utf8mb4_unicode_ci"},
		}
		for i, collation := range collations[d.name] {
			name := fmt.Sprintf("many%d", i)
			d.exec(t, fmt.Sprintf("CREATE TABLE %s (id BIGINT PRIMARY KEY, status VARCHAR(20), date_inserted VARCHAR(40) %s)", name, collation))
			m := plainMapping()
			m.Name, m.Dead = name, is(text("DEAD"))
			s := d.open(t, m)
			write := layouts("2006-01-02 15:04:05", "2006-01-02T15:04:05Z", "2006-01-02T15:04:05.000", "2006-01-02 15:04", "2006-01-02T15:04Z", "2006-01-02 15:04:05.000000+00:00", "2006-01-02 15:04:05 UTC")
			var values []string
			for i := range 300 { // one in 17 minutes, for three days and a half
				values = append(values, fmt.Sprintf("(%d, 'NEW', %s)", i, write(noon.Add(-time.Duration(i*17)*time.Minute), i)))
			}
			d.exec(t, "INSERT INTO "+name+" VALUES "+strings.Join(values, ", "))
			for _, age := range []time.Duration{17 * time.Minute, 5 * time.Hour, 12 * time.Hour, 12*time.Hour + time.Second, day, 2 * day, 5 * day} {
				n := min(300, int(age/(17*time.Minute))+1)
				for _, limit := range []int{1, 7, 1000} {
					records, unreadable := readAll(t, s, backlog.Query{Since: noon.Add(-age), Limit: limit})
					seen := make(map[string]bool)
					for _, r := range records {
						seen[r.Key.String()] = true
						if want := noon.Add(-time.Duration(r.Key.Part(0).(int64)*17) * time.Minute); !r.Inserted.Equal(want) {
							t.Errorf("row %v was inserted at %v, want %v", r.Key, r.Inserted, want)
						}
					}
					if len(records) != n || len(seen) != n || len(unreadable) > 0 {
						t.Errorf("%s, %v, pages of %d: %d records, %d of them different, %v; want %d", collation, age, limit, len(records), len(seen), unreadable, n)
					}
				}
				c, err := s.Count(t.Context(), noon, []time.Duration{age})
				if err != nil {
					t.Fatalf("%s, %v: Count: %v", collation, age, err)
				}
				what := fmt.Sprintf("%s, %v: counted as ", collation, age)
				testkit.Equal(t, what+"young", c.Bands[0].Fresh, n)
				testkit.Equal(t, what+"old", c.Beyond.Fresh, 300-n)
				testkit.Equal(t, what+"unreadable", c.Unreadable, 0)
			}
			if n, err := expire(t.Context(), s, noon, noon.Add(-day)); err != nil || n != 300-85 {
				t.Errorf("%s: Expire: %d, %v, want %d", collation, n, err, 300-85)
			}
		}
	})
}

// TestFormOfMostRows: the form is that of most rows, not of those that came first, for a store
// that runs as for the next one.
func TestFormOfMostRows(t *testing.T) {
	f := newFile(t, "CREATE TABLE BACKLOG (id INTEGER PRIMARY KEY, status TEXT DEFAULT 'NEW', date_inserted, send_after)")
	m := plainMapping()
	m.Eligible = &mapping.Time{Column: "send_after"}
	s := f.store(m)
	d := tableServer{"SQLite", f.plain, "sqlite:" + f.path}
	check := func(what, wantHandled, wantNamed string) {
		t.Helper()
		for _, s := range []*table.Table{s, d.open(t, m)} {
			handled, named := passOver(t, s, &backlog.Engine{})
			if got := strings.Join(handled, " "); got != wantHandled {
				t.Errorf("%s: handled %s, want %s", what, got, wantHandled)
			}
			if got := strings.Join(named, " "); got != wantNamed {
				t.Errorf("%s: named %s, want %s", what, got, wantNamed)
			}
			f.exec("UPDATE BACKLOG SET status = 'NEW'")
		}
	}
	f.exec("INSERT INTO BACKLOG (id, date_inserted) VALUES (1, 1770724801000)")
	check("the first row", "1", "")
	f.exec("INSERT INTO BACKLOG (id, date_inserted) VALUES (2, '2026-02-10 11:00:00'), (3, '2026-02-10T11:01:00Z'), (4, '2026-02-10 11:02:00')")
	passOver(t, s, &backlog.Engine{}) // which finds out
	f.exec("UPDATE BACKLOG SET status = 'NEW'")
	check("most are texts", "3 4 2", "1")

	f.exec("DELETE FROM BACKLOG WHERE id = 1; UPDATE BACKLOG SET send_after = 'soon' WHERE id = 2")
	check("the only time of eligibility is none", "3 4", "2")
	f.exec("INSERT INTO BACKLOG (id, date_inserted, send_after) VALUES (11, '2026-02-10 11:11:00', 1770724801), (12, '2026-02-10 11:12:00', '2026-02-10 11:00:00')," +
		" (13, '2026-02-10 11:13:00', '2026-02-10T11:00:00Z'), (14, '2026-02-10 11:14:00', '2026-02-10 13:00:00')")
	f.exec("UPDATE BACKLOG SET send_after = '2026-02-10 11:00:00' WHERE id = 2")
	check("the first time of eligibility is in another form", "3 13 12 4 2", "11")
}

// TestImpossibleDay: what only compares like a date is not too old.
func TestImpossibleDay(t *testing.T) {
	f := newFile(t, `CREATE TABLE BACKLOG (id INTEGER PRIMARY KEY, status TEXT DEFAULT 'NEW', date_inserted TEXT);
		INSERT INTO BACKLOG (id, date_inserted) VALUES (1, '2026-01-30 12:00:00'), (2, '2026-01-31T12:00:00Z'), (3, '2026-01-32 12:00:00'), (4, '2026-01-31 25:00:00'), (5, '2026-02-09 12:00:00')`)
	f.exec("INSERT INTO BACKLOG (id, date_inserted, status) SELECT id + 10, '2026-02-09 12:00:00', 'DONE' FROM BACKLOG")
	m := plainMapping()
	m.Dead = is(text("DEAD"))
	s := f.store(m)
	for _, want := range []int{2, 0} {
		if n, err := expire(t.Context(), s, noon, noon.Add(-7*day)); n != want || err != nil {
			t.Errorf("Expire: got %d, %v, want %d", n, err, want)
		}
	}
	f.wantRows("SELECT id FROM BACKLOG WHERE status = 'DEAD'", "1", "2")
}
