package table_test

import (
	"database/sql"
	"errors"
	"strings"
	"testing"
	"time"

	"backlog/backlog"
	"backlog/backlog/mapping"
	"backlog/backlog/table"
	"backlog/backlog/table/sqlite"
	"backlog/internal/testkit"
)

// ownDriver is the name under which the driver of this package is registered.
var ownDriver = map[bool]string{false: "sqlite", true: "sqlite3"}[strings.Contains(sqlite.Driver, "mattn")]

// openFile is table.Open for a file.
func openFile(t *testing.T, f *file, m mapping.Mapping) (*table.Table, error) {
	t.Helper()
	d, err := openDB(t.Context(), "sqlite:"+f.path, table.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return table.Open(t.Context(), d, m, noon)
}

// manyRows makes a table of 2,400 rows, every third of which fails.
const manyRows = `CREATE TABLE orders (id INTEGER PRIMARY KEY, status TEXT, date_inserted TEXT);
	WITH RECURSIVE s(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM s WHERE i < 2400)
		INSERT INTO orders SELECT i, 'NEW', datetime('2026-02-10 11:00:00', (-i) || ' seconds') FROM s`

// TestOpenHasTheLock from the start of each transaction: one that begins by
// reading can write, whatever others do.
func TestOpenHasTheLock(t *testing.T) {
	for _, mode := range []string{"wal", "delete"} {
		f := newFile(t, "PRAGMA journal_mode = "+mode+"; "+manyRows)
		s, err := openFile(t, f, mapping.Mapping{Name: "orders"})
		if err != nil {
			t.Fatal(err)
		}
		other := openPlain(t, f.path)
		defer other.Close()
		other.SetMaxOpenConns(1)
		wantOthersKeptOff(t, f, mode, s, other)
	}
}

// wantOthersKeptOff fails the test unless another program, which waits for nothing, is
// refused from the first read of a transaction on, and that can write.
func wantOthersKeptOff(t *testing.T, f *file, mode string, s *table.Table, other *sql.DB) {
	t.Helper()
	if _, err := other.Exec("PRAGMA busy_timeout = 0"); err != nil {
		t.Fatal(err)
	}
	err := s.InTx(t.Context(), func(tx *sql.Tx) error {
		var n int
		if err := tx.QueryRow("SELECT count(*) FROM orders").Scan(&n); err != nil {
			return err
		}
		if _, err := other.Exec("UPDATE orders SET status = 'DONE'"); err == nil {
			t.Errorf("%s: another program has written during the transaction", mode)
		}
		_, err := tx.Exec("UPDATE orders SET status = ?", n)
		return err
	})
	if err != nil {
		t.Errorf("%s: %v", mode, err)
	}
	f.wantRows("SELECT status, count(*) FROM orders GROUP BY 1", "'2400' 2400")
}

// TestOpenWaitsForOthers: a lock is waited for, and its end is noticed soon.
func TestOpenWaitsForOthers(t *testing.T) {
	eachJournal(t, 3, func(t *testing.T, f *file, wal bool) {
		s := f.store(plainMapping())
		records := lane(t, s, backlog.Fresh)
		for range 3 {
			end := f.exclusive()
			time.AfterFunc(30*time.Millisecond, end)
			if err := settle(t, s, records[0], backlog.Errored, "no"); err != nil {
				t.Fatal(err)
			}
			records[0] = lane(t, s, backlog.Failed)[0]
			end = f.exclusive()
			time.AfterFunc(30*time.Millisecond, end)
			if n := len(lane(t, s, backlog.Fresh)); n != 2 {
				t.Errorf("%d fresh records, want 2", n)
			}
			end()
		}
	})
}

func TestOpenRefuses(t *testing.T) {
	for _, x := range []struct {
		name, script string
		m            mapping.Mapping
		want         string
	}{
		{"no name", manyRows, mapping.Mapping{}, "the mapping names no table; set Name of the mapping"},
		{"no table", "SELECT 1", mapping.Mapping{Name: "orders"},
			"table orders does not exist in …; set table.name; `backlog init --create-table` creates it; there are no tables"},
		{"no waits", manyRows, mapping.Mapping{Name: "orders", Policy: &mapping.PolicyColumns{Count: "failures", Last: "last_failure"}},
			"policy: the mapping does not say how long a failed record waits; set Waits and Retries of the mapping's Policy to those of the engine's"},
		{"no key", "CREATE TABLE orders (no, status, date_inserted)", mapping.Mapping{Name: "orders"},
			`table.id: table orders has no column "id"; the columns are: no, status, date_inserted`},
		{"no times", "CREATE TABLE orders (id INTEGER PRIMARY KEY, status, date_inserted); INSERT INTO orders VALUES (1, 'NEW', 'soon')", mapping.Mapping{Name: "orders"},
			"table orders: column date_inserted: …"},
	} {
		_, err := openFile(t, newFile(t, x.script), x.m)
		if p := (*table.Problem)(nil); !errors.As(err, &p) || !testkit.Matches(err.Error(), x.want) {
			t.Errorf("%s: got %v\nwant %s", x.name, err, x.want)
		}
	}
}

func TestIs(t *testing.T) {
	f := newFile(t, `CREATE TABLE orders (id INTEGER PRIMARY KEY, state INTEGER, word TEXT, date_inserted TEXT);
		INSERT INTO orders VALUES (1, 0, 'now', '2026-02-10 11:00:00'), (2, 7, '+1', '2026-02-10 11:00:00'), (3, 5, 'x', '2026-02-10 11:00:00')`)
	for _, x := range []struct {
		m    mapping.Mapping
		want string
	}{
		{mapping.Mapping{Status: "state", New: mapping.Is("0", "7"), Error: mapping.Is("8"), Success: mapping.Is("9")}, "2 1"},
		{mapping.Mapping{Status: "word", New: mapping.Is("+1", "x"), Error: mapping.Is("+2"), Success: mapping.Is("now")}, "3 2"},
	} {
		x.m.Name = "orders"
		s, err := openFile(t, f, x.m)
		if err != nil {
			t.Fatal(err)
		}
		records := lane(t, s, backlog.Fresh)
		wantKeys(t, x.m.Status, records, x.want)
		if err := settle(t, s, records[0], backlog.Succeeded, ""); err != nil {
			t.Error(err)
		}
	}
	f.wantRows("SELECT state, word FROM orders", "0 'now'", "9 '+1'", "5 'now'")
}
