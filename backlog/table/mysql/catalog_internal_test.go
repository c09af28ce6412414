package mysql

import (
	"database/sql"
	"slices"
	"testing"

	mysqldriver "github.com/go-sql-driver/mysql"

	"backlog/backlog/table/db"
	"backlog/internal/testserver"
)

// newPool opens a database of the test's own. exec runs a statement there.
func newPool(t *testing.T) (pool *sql.DB, name string, exec func(text string) error) {
	t.Helper()
	name, u := testserver.MySQL(t, "backlog_test_")
	config := mysqldriver.NewConfig()
	config.User, config.Net, config.Addr, config.DBName = u.User.Username(), "tcp", u.Host, name
	config.Passwd, _ = u.User.Password()
	connector, err := mysqldriver.NewConnector(config)
	if err != nil {
		t.Fatal(err)
	}
	pool = sql.OpenDB(connector)
	t.Cleanup(func() { pool.Close() })
	return pool, name, func(text string) error {
		_, err := pool.ExecContext(t.Context(), text)
		return err
	}
}

// Where names of tables differ by case alone, each is its own table.
func TestCaseOfTables(t *testing.T) {
	pool, name, exec := newPool(t)
	var folds bool
	if err := pool.QueryRowContext(t.Context(), "SELECT @@lower_case_table_names > 0").Scan(&folds); err != nil {
		t.Fatal(err)
	} else if folds {
		t.Skip("the server does not tell them apart")
	}
	for _, text := range []string{
		"CREATE TABLE jobs (id INT PRIMARY KEY)", "CREATE TABLE JOBS (id INT PRIMARY KEY, a INT, INDEX i (a))",
		"CREATE TRIGGER g BEFORE UPDATE ON JOBS FOR EACH ROW SET NEW.a = 1",
	} {
		if err := exec(text); err != nil {
			t.Fatal(err)
		}
	}
	for table, want := range map[string][3]int{"jobs": {1, 1, 0}, "JOBS": {2, 2, 1}, "Jobs": {}} {
		c, err := (&server{}).Catalog(t.Context(), pool, name, table)
		if err != nil {
			t.Fatal(err)
		}
		if got := [3]int{len(c.Columns), len(c.Indexes), len(c.Triggers)}; got != want || (c.Unusable != nil) != (table == "Jobs") {
			t.Errorf("%s: %v columns, indexes and triggers, want %v; unusable: %v", table, got, want, c.Unusable)
		}
	}
}

// The server uses no index that is to be ignored, though it keeps what is unique so.
func TestIgnoredIndex(t *testing.T) {
	pool, name, exec := newPool(t)
	if err := exec("CREATE TABLE jobs (id INT PRIMARY KEY, a INT, b INT, INDEX used (a), INDEX hidden (a, b))"); err != nil {
		t.Fatal(err)
	}
	if err := exec("ALTER TABLE jobs ALTER INDEX hidden IGNORED"); err != nil { // MariaDB's word
		if err := exec("ALTER TABLE jobs ALTER INDEX hidden INVISIBLE"); err != nil { // MySQL's
			t.Skip("the server can ignore no index")
		}
	}
	c, err := (&server{}).Catalog(t.Context(), pool, name, "jobs")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, x := range c.Indexes {
		if !x.Unused {
			got = append(got, x.Name)
		}
	}
	if want := []string{"PRIMARY", "used"}; !slices.Equal(got, want) {
		t.Errorf("the indexes are %q, want %q", got, want)
	}
	if !slices.ContainsFunc(c.Indexes, func(x db.Index) bool { return x.Name == "hidden" && x.Unused }) {
		t.Errorf("the ignored index is not listed: %+v", c.Indexes)
	}
}
