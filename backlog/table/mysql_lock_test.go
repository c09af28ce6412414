package table_test

import (
	"errors"
	"net"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"backlog/backlog"
	"backlog/backlog/table"
	"backlog/backlog/table/mysql"
)

// mysqlLocker opens a table as another process would.
func mysqlLocker(tb testing.TB, rawURL, schema, name string) backlog.Locker {
	tb.Helper()
	db, err := openDB(tb.Context(), rawURL, table.Options{})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { db.Close() })
	m := plainMapping()
	m.Schema, m.Name = schema, name
	s, err := table.New(tb.Context(), db, m)
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

// TestMySQLLock: it is that of one table, under each of its names, and of one
// kind; it ends with its connection, which is noticed.
func TestMySQLLock(t *testing.T) {
	plain, rawURL := newMySQL(t)
	defer plain.Close()
	long := strings.Repeat("длинное", 8)
	for _, name := range []string{"BACKLOG", long + "1", long + "2"} {
		execMySQL(t, plain, "CREATE TABLE `"+name+"` (id INT PRIMARY KEY, status VARCHAR(20), date_inserted DATETIME)")
	}
	u, _ := url.Parse(rawURL)
	schema := strings.TrimPrefix(u.Path, "/")
	ours, theirs := mysqlLocker(t, rawURL, "", "BACKLOG"), mysqlLocker(t, rawURL, schema, "BACKLOG")
	held := lock(t, ours)
	wantLocked(t, "another process", theirs)
	wantLocked(t, "the same process", ours)
	leader, err := ours.TryLock(t.Context(), backlog.LeaderLock)
	if err != nil {
		t.Fatal(err)
	}
	one, two := mysqlLocker(t, rawURL, "", long+"1"), mysqlLocker(t, rawURL, "", long+"2")
	first, second := lock(t, one), lock(t, two)
	unlock(t, first)
	unlock(t, second)
	unlock(t, held)
	held = lock(t, theirs)
	unlock(t, held)
	if err := held.Check(t.Context()); err == nil {
		t.Error("Check of a lock that was given back: got nil")
	}
	if err := leader.Check(t.Context()); err != nil {
		t.Errorf("the leader's lock, when the other was given back: %v", err)
	}

	var id int64
	if err := plain.QueryRow("SELECT id FROM information_schema.processlist WHERE db = ? AND id <> connection_id() AND id = (SELECT IS_USED_LOCK(?))",
		schema, mysql.LockText(schema, "BACKLOG", string(backlog.LeaderLock))).Scan(&id); err != nil {
		t.Fatal(err)
	}
	execMySQL(t, plain, "KILL ?", id)
	if err := leader.Check(t.Context()); err == nil {
		t.Error("Check of a lock whose connection was killed: got nil")
	}
	again, err := theirs.TryLock(t.Context(), backlog.LeaderLock)
	for tries := 0; errors.Is(err, backlog.ErrLocked) && tries < 100; tries++ { // the server takes a moment
		time.Sleep(20 * time.Millisecond)
		again, err = theirs.TryLock(t.Context(), backlog.LeaderLock)
	}
	if err != nil {
		t.Errorf("the lock of a connection that was killed: %v", err)
	} else {
		unlock(t, again)
	}
	unlock(t, leader)
	unlock(t, lock(t, ours))
}

// TestMySQLLockOfHalfOpenConnection: nothing comes through any more, and neither
// side is told. The one who has the lock knows it first.
func TestMySQLLockOfHalfOpenConnection(t *testing.T) {
	t.Parallel() // it waits
	plain, rawURL := newMySQL(t)
	defer plain.Close()
	execMySQL(t, plain, "CREATE TABLE BACKLOG (id INT PRIMARY KEY, status VARCHAR(20), date_inserted DATETIME)")
	u, _ := url.Parse(rawURL)
	p := newStallingProxy(t, u.Host)
	theirs := mysqlLocker(t, rawURL, "", "BACKLOG")
	u.Host = p.addr
	held := lock(t, mysqlLocker(t, u.String(), "", "BACKLOG"))
	close(p.stalled)
	began := time.Now()
	if err := held.Check(t.Context()); err == nil {
		t.Error("Check on a dead connection: got nil")
	}
	if d := time.Since(began); d > 3*time.Second {
		t.Errorf("Check took %v", d)
	}
	wantLocked(t, "while the server does not know", theirs)
	next, err := backlog.WaitLock(t.Context(), theirs, backlog.RunLock, nil)
	if err != nil {
		t.Fatal(err)
	}
	unlock(t, next)
	if d := time.Since(began); d > 14*time.Second {
		t.Errorf("the server let go of the lock after %v", d)
	}
}

// A lock request whose answer falls silent after its row gives up within its limit: the driver closes rows without
// regard to the context, and would wait for the rest.
func TestMySQLLockAnswerWithoutEnd(t *testing.T) {
	t.Parallel() // it waits
	plain, rawURL := newMySQL(t)
	defer plain.Close()
	execMySQL(t, plain, "CREATE TABLE BACKLOG (id INT PRIMARY KEY, status VARCHAR(20), date_inserted DATETIME)")
	const execute = 0x17 // COM_STMT_EXECUTE
	var cutting, executing, wasCut atomic.Bool
	u, _ := url.Parse(rawURL)
	u.Host = newProxy(t, u.Host, func(client, server net.Conn) {
		go passOn(client, server, func(b []byte) bool {
			executing.Store(len(b) > 4 && b[4] == execute)
			return true
		})
		go func() {
			for b := make([]byte, 32<<10); ; {
				n, err := server.Read(b)
				if err != nil {
					client.Close()
					return
				}
				if cutting.Load() && executing.Load() {
					client.Write(b[:n-1])
					wasCut.Store(true)
					time.AfterFunc(5*time.Second, func() { client.Close() }) // ends a request without a limit
					return
				}
				client.Write(b[:n])
			}
		}()
	})
	locker := mysqlLocker(t, u.String(), "", "BACKLOG")
	cutting.Store(true)
	began := time.Now()
	_, err := locker.TryLock(t.Context(), backlog.RunLock)
	if d := time.Since(began); err == nil || d > 3*time.Second {
		t.Errorf("TryLock took %v, and returned %v", d, err)
	}
	if !wasCut.Load() {
		t.Error("no answer was cut")
	}
}

// A stallingProxy passes everything on until stalled is closed, and then keeps
// the connections open and silent.
type stallingProxy struct {
	addr    string
	stalled chan struct{}
}

func newStallingProxy(tb testing.TB, to string) *stallingProxy {
	tb.Helper()
	p := &stallingProxy{stalled: make(chan struct{})}
	p.addr = newProxy(tb, to, func(client, server net.Conn) {
		go p.pass(client, server)
		go p.pass(server, client)
	})
	return p
}

func (p *stallingProxy) pass(from, to net.Conn) {
	b := make([]byte, 32<<10)
	for {
		n, err := from.Read(b)
		select {
		case <-p.stalled:
			return
		default:
		}
		if _, werr := to.Write(b[:n]); err != nil || werr != nil {
			to.Close()
			return
		}
	}
}
