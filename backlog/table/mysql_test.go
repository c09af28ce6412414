package table_test

import (
	"crypto/rand"
	"database/sql"
	"net/url"
	"strings"
	"testing"
	"time"

	mysqldriver "github.com/go-sql-driver/mysql"

	"backlog/backlog"
	"backlog/backlog/storetest"
	"backlog/backlog/table"
	"backlog/internal/testserver"
)

// TestStoreOnMySQL runs the conformance suite on a real server, once for each
// way in which tables hold times.
func TestStoreOnMySQL(t *testing.T) {
	t.Parallel()
	for i, f := range mysqlTimeForms {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel() // most of the time the server's disk is waited for
			d := onMySQL
			if i == 0 { // what is to be granted does not depend on the form
				d.user = mysqlUser
			}
			d.open(t) // or skips all: a case cannot skip what it shares
			suite(i)(t, shared(t, func(t *testing.T, want storetest.Table) *harness { return newHarness(t, d, f, want) }))
		})
	}
}

// TestMySQLTextAndNumbers: dates that are text or numbers are compared as these
// are.
func TestMySQLTextAndNumbers(t *testing.T) {
	for _, f := range mysqlOtherForms {
		h := newHarness(t, onMySQL, f, storetest.Table{Times: true})
		var rows []storetest.Row
		for i := range 6 {
			rows = append(rows, storetest.Row{Key: backlog.NewKey(int64(i)), Status: storetest.Fresh, Inserted: noon.Add(-time.Duration(i) * time.Hour)})
		}
		rows[1].Expires, rows[2].Eligible = noon.Add(-f.precision), noon.Add(f.precision)
		rows[3].Expires, rows[3].Eligible = noon, noon
		if err := h.Insert(rows...); err != nil {
			t.Fatal(err)
		}
		p, err := h.Store().Pending(t.Context(), backlog.Query{Now: noon, Since: noon.Add(-4 * time.Hour), Limit: 10})
		if err != nil {
			t.Fatal(err)
		}
		wantKeys(t, f.name, p.Records, "0 3 4")
		left, err := h.Store().Settle(t.Context(), []backlog.Settlement{{Record: &p.Records[1], Target: backlog.RowSuccess, At: noon}})
		if len(left) > 0 || err != nil {
			t.Errorf("%s: %v, %v", f.name, left, err)
		}
	}
}

// mysqlForm is that of a column of the server's own type.
func mysqlForm(decl, layout string, precision time.Duration, zone *time.Location) timeForm {
	return timeForm{
		name: decl, decl: decl, precision: precision, zone: zone,
		write: func(t time.Time) any { return t.In(zone).Format(layout) },
		read:  func(v any) (time.Time, error) { return time.ParseInLocation(layout, string(v.([]byte)), zone) },
	}
}

var mysqlTimeForms = []timeForm{
	mysqlForm("DATETIME", "2006-01-02 15:04:05", time.Second, time.UTC),
	mysqlForm("DATETIME(6)", "2006-01-02 15:04:05.000000", time.Microsecond, kolkata),
	mysqlForm("TIMESTAMP(3) NULL", "2006-01-02 15:04:05.000", time.Millisecond, time.UTC),
}

// mysqlOtherForms are those that no type of the server's stands for.
var mysqlOtherForms = []timeForm{
	mysqlForm("VARCHAR(40)", "2006-01-02T15:04:05.000Z", time.Millisecond, time.UTC),
	{
		name: "unix milliseconds", decl: "BIGINT", precision: time.Millisecond, zone: time.UTC,
		write: func(t time.Time) any { return t.UnixMilli() },
		read:  func(v any) (time.Time, error) { return time.UnixMilli(v.(int64)), nil },
	},
}

var onMySQL = testDatabase{
	open: func(t *testing.T) (*sql.DB, string) { return newMySQL(t) },
	sql: func(text string) string {
		text = strings.ReplaceAll(text, `"`, "`")
		return strings.NewReplacer("SELECT +", "SELECT ", ", +", ", ", "INTEGER", "BIGINT", "part INT,", "part BIGINT,").Replace(text)
	},
	textKey: "VARCHAR(191) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin", blobKey: "VARBINARY(191)", blob: "LONGBLOB", boolean: "BOOLEAN",
}

// mysqlUser makes a user without rights.
func mysqlUser(h *harness) (name, address string) {
	u, err := url.Parse(h.url)
	if err != nil {
		h.t.Fatal(err)
	}
	user := "backlog_" + strings.ToLower(rand.Text()[:12])
	name = user + "@'%'"
	if _, err := h.plain.Exec("CREATE USER " + name); err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { h.plain.Exec("DROP USER " + name) })
	u.User = url.User(user)
	return name, u.String()
}

// plainMySQL opens the server's database as any program would.
func plainMySQL(tb testing.TB, u *url.URL) *sql.DB {
	tb.Helper()
	c := mysqldriver.NewConfig()
	c.User = u.User.Username()
	c.Passwd, _ = u.User.Password()
	c.Net, c.Addr, c.DBName = "tcp", u.Host, strings.TrimPrefix(u.Path, "/")
	c.Params = map[string]string{"time_zone": "'+00:00'"}
	c.InterpolateParams = true // one round trip each
	connector, err := mysqldriver.NewConnector(c)
	if err != nil {
		tb.Fatal(err)
	}
	return sql.OpenDB(connector)
}

// newMySQL makes a database of the test's own and drops it at its end.
func newMySQL(tb testing.TB) (plain *sql.DB, rawURL string) {
	tb.Helper()
	_, u := testserver.MySQL(tb, "backlog_test_")
	return plainMySQL(tb, u), u.String()
}

// TestMySQLReopenedTable: a table that is opened again on the same connections, as a reload does, leaves no
// statements behind on the server, which has a limit for those of all programs.
func TestMySQLReopenedTable(t *testing.T) {
	t.Parallel()
	plain, url := newMySQL(t)
	if _, err := plain.Exec("CREATE TABLE jobs (id INT PRIMARY KEY, status VARCHAR(9) DEFAULT 'NEW', created DATETIME DEFAULT '2026-02-10 11:00:00')"); err != nil {
		t.Fatal(err)
	}
	const onlyConnection = 3 // two are for locks
	db, err := openDB(t.Context(), url, table.Options{Pool: onlyConnection})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	prepared := func() (n int) {
		const status = "SELECT SUM(IF(VARIABLE_NAME = 'COM_STMT_PREPARE', 1, -1) * VARIABLE_VALUE) FROM information_schema.SESSION_STATUS WHERE VARIABLE_NAME IN ('COM_STMT_PREPARE', 'COM_STMT_CLOSE')"
		if err := db.Read.QueryRow(status).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	var counts []int
	for id := range 4 {
		if _, err := plain.Exec("INSERT INTO jobs (id) VALUES (?)", id); err != nil {
			t.Fatal(err)
		}
		store, err := table.New(t.Context(), db, jobs())
		if err == nil {
			err = store.Prove(t.Context(), noon)
		}
		if err != nil {
			t.Fatal(err)
		}
		records, _ := readAll(t, store, backlog.Query{Lane: backlog.Fresh, Limit: 5, Now: noon, Since: noon.Add(-ages)})
		if len(records) != 1 {
			t.Fatalf("%d records are pending, want the new one", len(records))
		}
		_, err = store.Settle(t.Context(), []backlog.Settlement{{Record: &records[0], Target: backlog.RowSuccess, At: noon}})
		if err != nil {
			t.Fatal(err)
		}
		counts = append(counts, prepared())
	}
	if first, last := counts[0], counts[len(counts)-1]; first == 0 || first != last {
		t.Errorf("prepared statements after each opening: %d", counts)
	}
}
