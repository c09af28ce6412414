package table_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"backlog/backlog"
	"backlog/backlog/table"
	"backlog/backlog/table/doctor"
	"backlog/internal/testkit"
)

// eachJournal runs the test on a table with n new rows in a database with a
// rollback journal, where readers and a writer exclude each other, and in one
// with a write-ahead log, and looks afterwards that it still has it.
func eachJournal(t *testing.T, n int, test func(t *testing.T, f *file, wal bool)) {
	for _, mode := range []string{"delete", "wal"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			f := newFile(t, "PRAGMA journal_mode = "+mode+`; PRAGMA synchronous = normal;
				CREATE TABLE BACKLOG (id INTEGER PRIMARY KEY, status TEXT, date_inserted TEXT, visits INTEGER DEFAULT 0);
				CREATE INDEX pending ON BACKLOG (status, date_inserted)`)
			f.exec(fmt.Sprintf(`WITH RECURSIVE s(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM s WHERE i < %d)
				INSERT INTO BACKLOG (id, status, date_inserted) SELECT i, 'NEW', datetime('2026-02-10 11:00:00', (-i) || ' seconds') FROM s`, n))
			test(t, f, mode == "wal")
			f.wantRows("SELECT * FROM pragma_journal_mode", "'"+mode+"'")
		})
	}
}

// exclusive begins a transaction that lets nobody else write or, with a
// rollback journal, read.
func (f *file) exclusive() (end func()) {
	f.Helper()
	ctx := context.Background()
	c, err := f.plain.Conn(ctx)
	if err == nil {
		_, err = c.ExecContext(ctx, "BEGIN EXCLUSIVE")
	}
	if err != nil {
		f.Fatal(err)
	}
	return sync.OnceFunc(func() {
		if _, err := c.ExecContext(ctx, "ROLLBACK"); err != nil {
			f.Error(err)
		}
		c.Close()
	})
}

// TestPassBesideABusyProgram: another program inserts and updates in
// transactions of its own for as long as the pass runs. Neither meets a lock
// that it does not wait for, and no change of either is lost.
func TestPassBesideABusyProgram(t *testing.T) {
	const rows = 2000
	eachJournal(t, rows, func(t *testing.T, f *file, _ bool) {
		s := f.store(plainMapping())
		stop, ended := make(chan struct{}), make(chan struct{})
		visits, inserted := 0, 0
		go func() {
			defer close(ended)
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				tx, err := f.plain.Begin()
				if err != nil {
					t.Errorf("the other program: begin: %v", err)
					return
				}
				_, err = tx.Exec("UPDATE BACKLOG SET visits = visits + 1 WHERE id = ?", i*7%rows+1)
				if err == nil && i%2 == 0 {
					_, err = tx.Exec("INSERT INTO BACKLOG (status, date_inserted) VALUES ('NEW', '2026-02-10 11:30:00')")
					inserted++
				}
				if err := errors.Join(err, tx.Commit()); err != nil {
					t.Errorf("the other program: %v", err)
					return
				}
				visits++
			}
		}()
		var handled sync.Map
		work := func() backlog.Report {
			e := &backlog.Engine{
				Store: s, Concurrency: 4,
				Handler: backlog.HandlerFunc(func(_ context.Context, r *backlog.Record) error {
					if _, twice := handled.LoadOrStore(r.Key.String(), true); twice {
						t.Errorf("row %v was handled twice", r.Key)
					}
					return nil
				}),
				Observe: func(ev backlog.Event) {
					if ev.Kind == backlog.StoreUnavailable {
						t.Errorf("the store is away: %v", ev.Err)
					}
				},
			}
			r, err := e.Pass(context.Background(), backlog.Pass{MaxAge: day, Now: noon})
			if err != nil {
				t.Error(err)
			}
			return r
		}
		r := work()
		close(stop)
		<-ended
		if r.Succeeded < rows || r.Conflicts > 0 {
			t.Errorf("the pass: %+v, want at least %d successes and no conflicts", r, rows)
		}
		r2 := work() // what was inserted behind its back
		f.wantRows("SELECT status, count(*), sum(visits) FROM BACKLOG GROUP BY 1", fmt.Sprintf("'SUCCESS' %d %d", rows+inserted, visits))
		if r.Succeeded+r2.Succeeded != rows+inserted || visits == 0 {
			t.Errorf("%d and then %d records succeeded, %d were inserted, %d visits", r.Succeeded, r2.Succeeded, inserted, visits)
		}
	})
}

// TestPassWaitsForAnExclusiveTransaction that lasts two seconds, which is less
// than SQLite is told to wait.
func TestPassWaitsForAnExclusiveTransaction(t *testing.T) {
	eachJournal(t, 300, func(t *testing.T, f *file, _ bool) {
		s := f.store(plainMapping())
		end := f.exclusive()
		time.AfterFunc(2*time.Second, end)
		r := pass(t, s, func(*backlog.Record) error { return nil })
		if r.Succeeded != 300 || !r.Complete {
			t.Errorf("the pass: %+v, want 300 successes", r)
		}
		end()
		f.wantRows("SELECT status, count(*) FROM BACKLOG GROUP BY 1", "'SUCCESS' 300")
	})
}

// TestPassOutlastsALock that is held for longer than SQLite waits: the pass
// says so, hands out nothing that it could not settle, and goes on afterwards.
func TestPassOutlastsALock(t *testing.T) {
	eachJournal(t, 300, func(t *testing.T, f *file, _ bool) {
		s, err := f.openWith(plainMapping(), table.Impatient(20*time.Millisecond))
		if err != nil {
			t.Fatal(err)
		}
		end := f.exclusive()
		var handled, away, back atomic.Int64
		e := &backlog.Engine{
			Store:   s,
			Handler: backlog.HandlerFunc(func(context.Context, *backlog.Record) error { handled.Add(1); return nil }),
			Observe: func(ev backlog.Event) {
				switch ev.Kind {
				case backlog.StoreUnavailable:
					if away.Add(1) == 1 {
						end()
					}
				case backlog.StoreBack:
					back.Add(1)
				}
			},
		}
		r, err := e.Pass(context.Background(), backlog.Pass{MaxAge: day, Now: noon})
		if err != nil {
			t.Errorf("the pass: %v", err)
		}
		testkit.Equal(t, "succeeded", r.Succeeded, 300)
		testkit.Equal(t, "unwritten or in conflict", r.Unwritten+r.Conflicts, 0)
		testkit.Equal(t, "calls of the handler", handled.Load(), 300)
		if away.Load() == 0 || away.Load() != back.Load() {
			t.Errorf("the store was away %d times and back %d times", away.Load(), back.Load())
		}
		f.wantRows("SELECT status, count(*) FROM BACKLOG GROUP BY 1", "'SUCCESS' 300")
	})
}

// TestLockedIsAway: every call that meets a lock for longer than SQLite waits
// returns an error that wraps ErrUnavailable, and succeeds when it is made again.
func TestLockedIsAway(t *testing.T) {
	eachJournal(t, 3, func(t *testing.T, f *file, wal bool) {
		ctx := context.Background()
		m := plainMapping()
		m.Dead = is(text("DEAD"))
		s := f.store(m)
		records := lane(t, s, backlog.Fresh)
		db, err := openDB(ctx, "sqlite:"+f.path, table.Impatient(20*time.Millisecond))
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		impatient, err := table.New(ctx, db, m)
		if err != nil {
			t.Fatal(err)
		}
		if err := impatient.Prove(ctx, noon); err != nil {
			t.Fatal(err)
		}
		settle := func() error {
			left, err := impatient.Settle(ctx, []backlog.Settlement{{Record: &records[0], Target: backlog.RowSuccess, At: noon}, {Record: &records[1], Target: backlog.RowError, At: noon}})
			if len(left) > 0 {
				t.Errorf("Settle: left are %v", left)
			}
			return err
		}
		calls := []struct {
			name   string
			writes bool
			call   func() error
		}{
			{"Try", true, func() error {
				return impatient.Try(ctx, backlog.Settlement{Record: &records[0], Target: backlog.RowSuccess, At: noon})
			}},
			{"Settle", true, settle},
			{"Expire", true, func() error { _, err := expire(ctx, impatient, noon, noon); return err }},
			{"Pending", false, func() error {
				_, err := impatient.Pending(ctx, backlog.Query{Now: noon, Since: noon.Add(-day), Limit: 10})
				return err
			}},
			{"Count", false, func() error { _, err := impatient.Count(ctx, noon, nil); return err }},
			{"Plans", false, func() error { _, err := doctor.QueryPlans(ctx, impatient, impatient.PassQueries(noon)); return err }},
			{"Ping", false, func() error { return impatient.Ping(ctx) }},
			{"New", false, func() error { _, err := table.New(ctx, db, m); return err }},
			{"Open", false, func() error {
				db, err := openDB(ctx, "sqlite:"+f.path, table.Impatient(20*time.Millisecond))
				if err == nil {
					db.Close()
				}
				return err
			}},
		}
		end := f.exclusive()
		for _, c := range calls {
			err := c.call()
			if blocked := c.writes || !wal; blocked != errors.Is(err, backlog.ErrUnavailable) || !blocked && err != nil {
				t.Errorf("%s of a locked database: got %v, want an error that wraps ErrUnavailable: %v", c.name, err, blocked)
			}
		}
		end()
		for _, c := range calls {
			if err := c.call(); err != nil {
				t.Errorf("%s when the lock is gone: %v", c.name, err)
			}
		}
		f.wantRows("SELECT id, status FROM BACKLOG ORDER BY id", "1 'SUCCESS'", "2 'DEAD'", "3 'DEAD'")
	})
}

// TestCommitThatAReaderBlocks: with a rollback journal a program that reads
// for long keeps a transaction from its end. Nothing is written then, and the
// connection is good for the next try.
func TestCommitThatAReaderBlocks(t *testing.T) {
	eachJournal(t, 3, func(t *testing.T, f *file, wal bool) {
		s, err := f.openWith(plainMapping(), table.Impatient(20*time.Millisecond))
		if err != nil {
			t.Fatal(err)
		}
		var group []backlog.Settlement
		for _, r := range lane(t, s, backlog.Fresh) {
			group = append(group, backlog.Settlement{Record: &r, Target: backlog.RowSuccess, At: noon})
		}
		ctx := context.Background()
		reader, err := f.plain.Conn(ctx)
		if err != nil {
			t.Fatal(err)
		}
		defer reader.Close()
		look := func() (n int) {
			if err := reader.QueryRowContext(ctx, "SELECT count(*) FROM BACKLOG WHERE status = 'NEW'").Scan(&n); err != nil {
				t.Fatal(err)
			}
			return n
		}
		if _, err := reader.ExecContext(ctx, "BEGIN DEFERRED"); err != nil {
			t.Fatal(err)
		}
		look()
		if !wal {
			for range 2 {
				if left, err := s.Settle(ctx, group); !errors.Is(err, backlog.ErrUnavailable) || len(left) > 0 {
					t.Errorf("Settle while another program reads: got %v, %v, want an error that wraps ErrUnavailable", left, err)
				}
			}
		} else if left, err := s.Settle(ctx, group[:1]); err != nil || len(left) > 0 {
			t.Errorf("Settle while another program reads: got %v, %v", left, err)
		}
		if n := look(); n != 3 {
			t.Errorf("the reader sees %d new rows, want the 3 of its beginning", n)
		}
		if _, err := reader.ExecContext(ctx, "COMMIT"); err != nil {
			t.Fatal(err)
		}
		left, err := s.Settle(ctx, group)
		if err != nil || len(left) != map[bool]int{false: 0, true: 1}[wal] {
			t.Errorf("Settle afterwards: got %v, %v", left, err)
		}
		f.wantRows("SELECT status, count(*) FROM BACKLOG GROUP BY 1", "'SUCCESS' 3")
	})
}

// TestContextEndsTheWaitForALock long before SQLite is told to give up.
func TestContextEndsTheWaitForALock(t *testing.T) {
	eachJournal(t, 3, func(t *testing.T, f *file, wal bool) {
		s := f.store(plainMapping())
		records := lane(t, s, backlog.Fresh)
		end := f.exclusive()
		defer end()
		for _, c := range []struct {
			name   string
			writes bool
			call   func(context.Context) error
		}{
			{"Settle", true, func(ctx context.Context) error {
				_, err := s.Settle(ctx, []backlog.Settlement{{Record: &records[0], Target: backlog.RowSuccess, At: noon}})
				return err
			}},
			{"Try", true, func(ctx context.Context) error {
				return s.Try(ctx, backlog.Settlement{Record: &records[0], Target: backlog.RowSuccess, At: noon})
			}},
			{"Pending", false, func(ctx context.Context) error {
				_, err := s.Pending(ctx, backlog.Query{Now: noon, Since: noon.Add(-day), Limit: 10})
				return err
			}},
			{"Ping", false, s.Ping},
		} {
			if wal && !c.writes {
				continue // there is nothing to wait for
			}
			ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
			start := time.Now()
			err := c.call(ctx)
			if took := time.Since(start); !errors.Is(err, context.DeadlineExceeded) || took > 5*time.Second {
				t.Errorf("%s: got %v after %v, want the end of the context", c.name, err, took)
			}
			cancel()
		}
		end()
		f.wantRows("SELECT status FROM BACKLOG", "'NEW'", "'NEW'", "'NEW'")
	})
}
