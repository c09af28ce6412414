package table_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"backlog/backlog"
	"backlog/backlog/mapping"
	"backlog/backlog/table"
	"backlog/backlog/table/sqlite"
	"backlog/backlog/table/work"
	"backlog/internal/testkit"
)

// count is the work of these tests: a row for each record, and a sum.
var count = []string{"INSERT INTO counted (id) SELECT :id WHERE :id % 10 <> 0", "UPDATE total SET n = n + 1"}

func counters(f *file) {
	f.exec("CREATE TABLE counted (id INTEGER PRIMARY KEY); CREATE TABLE total (n INTEGER); INSERT INTO total VALUES (0)")
}

// workPass runs a pass with the work as its handler.
func workPass(t testing.TB, s backlog.Store, w *work.SQLHandler, change func(*backlog.Engine)) backlog.Report {
	t.Helper()
	e := &backlog.Engine{Store: s, Handler: w, Concurrency: 4, Timeout: time.Minute}
	if change != nil {
		change(e)
	}
	r, err := e.Pass(context.Background(), backlog.Pass{Tier: "all", MaxAge: ages, Widest: true, Now: noon})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestWorkPass: successes settled by the work and failures settled in groups go
// through one connection, beside another program that writes all the time.
// Nobody waits for ever and nothing is counted twice.
func TestWorkPass(t *testing.T) {
	const rows = 300
	eachJournal(t, rows, func(t *testing.T, f *file, _ bool) {
		counters(f)
		s := f.store(plainMapping())
		stop, ended := make(chan struct{}), make(chan struct{})
		visits := 0
		go func() {
			defer close(ended)
			for ; ; visits++ {
				select {
				case <-stop:
					return
				default:
				}
				if _, err := f.plain.Exec("UPDATE BACKLOG SET visits = visits + 1 WHERE id = ?", visits*7%rows+1); err != nil {
					t.Errorf("the other program: %v", err)
					return
				}
			}
		}()
		w := newWork(t, s, count...)
		r := workPass(t, s, w, func(e *backlog.Engine) {
			e.Concurrency = 16
			e.Observe = func(ev backlog.Event) {
				if ev.Kind == backlog.StoreUnavailable {
					t.Errorf("the store is away: %v", ev.Err)
				}
			}
		})
		close(stop)
		<-ended
		testkit.Equal(t, "succeeded", r.Succeeded, rows*9/10)
		testkit.Equal(t, "failed", r.Failed, rows/10)
		testkit.Equal(t, "skipped or in conflict", r.Conflicts+r.Skipped, 0)
		testkit.Equal(t, "the pass is complete", r.Complete, true)
		f.wantRows("SELECT status, count(*), sum(id % 10 = 0) FROM BACKLOG GROUP BY 1", fmt.Sprintf("'ERROR' %d %d", rows/10, rows/10), fmt.Sprintf("'SUCCESS' %d 0", rows*9/10))
		f.wantRows("SELECT count(*), n, (SELECT sum(visits) FROM BACKLOG) FROM counted, total", fmt.Sprintf("%d %d %d", rows*9/10, rows*9/10, visits))
	})
}

// TestWorkOnAPool that the program has opened itself, with one connection and
// with several.
func TestWorkOnAPool(t *testing.T) {
	for _, connections := range []int{1, 4} {
		t.Run(fmt.Sprint(connections), func(t *testing.T) {
			f := newFile(t, `CREATE TABLE BACKLOG (id INTEGER PRIMARY KEY, status TEXT, date_inserted TEXT)`)
			f.exec(`WITH RECURSIVE s(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM s WHERE i < 200) INSERT INTO BACKLOG SELECT i, 'NEW', '2026-02-10 11:00:00' FROM s`)
			counters(f)
			f.plain.SetMaxOpenConns(connections)
			s, err := table.OpenDB(context.Background(), f.plain, sqlite.Dialect, mapping.Mapping{Name: "BACKLOG"}, noon)
			if err != nil {
				t.Fatal(err)
			}
			w := newWork(t, s, count...)
			if err := w.Check(context.Background()); err != nil {
				t.Error(err)
			}
			if r := workPass(t, s, w, nil); r.Succeeded != 180 || r.Failed != 20 {
				t.Errorf("the pass: %+v", r)
			}
			f.wantRows("SELECT count(*), n FROM counted, total", "180 180")
		})
	}
}

// TestWorkPassOutlastsALock that is held for longer than SQLite waits: no
// record is lost for the pass, and nothing is done twice.
func TestWorkPassOutlastsALock(t *testing.T) {
	eachJournal(t, 99, func(t *testing.T, f *file, _ bool) {
		counters(f)
		s, err := f.openWith(plainMapping(), table.Impatient(20*time.Millisecond))
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Prove(context.Background(), noon); err != nil {
			t.Fatal(err)
		}
		var beginning sync.Mutex // the next page may find the lock before exclusive returns
		var end func()
		r := workPass(t, s, newWork(t, s, count...), func(e *backlog.Engine) {
			e.Concurrency = 1
			e.Observe = func(ev backlog.Event) {
				beginning.Lock()
				defer beginning.Unlock()
				switch {
				case ev.Kind == backlog.AttemptEnded && end == nil:
					end = f.exclusive()
				case ev.Kind == backlog.StoreUnavailable && end != nil:
					end()
				}
			}
		})
		testkit.Equal(t, "succeeded", r.Succeeded, 90)
		testkit.Equal(t, "failed", r.Failed, 9)
		testkit.Equal(t, "skipped or in conflict", r.Skipped+r.Conflicts, 0)
		testkit.Equal(t, "the pass is complete", r.Complete, true)
		f.wantRows("SELECT count(*), n FROM counted, total", "90 90")
	})
}

// TestWorkLocked: a lock that is held for too long, before the work or at its
// end, is no failure of the record's, and nothing of the work is left.
func TestWorkLocked(t *testing.T) {
	eachJournal(t, 3, func(t *testing.T, f *file, wal bool) {
		counters(f)
		s, err := f.openWith(plainMapping(), table.Impatient(20*time.Millisecond))
		if err == nil {
			err = s.Prove(context.Background(), noon)
		}
		if err != nil {
			t.Fatal(err)
		}
		records := lane(t, s, backlog.Fresh)
		w := newWork(t, s, count...)
		end := f.exclusive()
		if err := do(w, records[0]); !errors.Is(err, backlog.ErrUnavailable) {
			t.Errorf("the lock to write is held: got %v, want an error that wraps ErrUnavailable", err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
		<-ctx.Done()
		if err := w.HandleAndSettle(ctx, &records[0], atNoon); !errors.Is(err, backlog.ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the attempt's time ends before the work begins: got %v, want an error that wraps ErrUnavailable", err)
		}
		cancel()
		end()
		reader, err := f.plain.Conn(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		defer reader.Close()
		for _, text := range []string{"BEGIN DEFERRED", "SELECT * FROM BACKLOG"} {
			if _, err := reader.ExecContext(context.Background(), text); err != nil {
				t.Fatal(err)
			}
		}
		switch err := do(w, records[0]); {
		case wal && err != nil:
			t.Errorf("somebody reads a database in WAL mode: got %v, want no error", err)
		case !wal && !errors.Is(err, backlog.ErrUnavailable):
			t.Errorf("somebody reads: got %v, want the database unavailable", err)
		}
		if _, err := reader.ExecContext(context.Background(), "COMMIT"); err != nil {
			t.Fatal(err)
		}
		for i, r := range records {
			err := do(w, r)
			done := wal && i == 0 && errors.Is(err, backlog.ErrConflict) // beside the reader
			if err != nil && !done {
				t.Errorf("record %v: %v", r.Key, err)
			}
		}
		f.wantRows("SELECT count(*), n FROM counted, total", "3 3")
		f.wantRows("SELECT status, count(*) FROM BACKLOG GROUP BY 1", "'SUCCESS' 3")
	})
}

// TestWorkTimeout: a statement that takes too long is ended, is the record's
// failure, and says so.
func TestWorkTimeout(t *testing.T) {
	f := orders(t)
	s := f.store(plainMapping())
	endless := "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) INSERT INTO shipped SELECT :id, count(*) FROM n WHERE :item = 'apple'"
	w := newWork(t, s, "UPDATE stock SET n = n + 1", endless)
	var failure string
	r := workPass(t, s, w, func(e *backlog.Engine) {
		e.Timeout, e.MaxRecords = 100*time.Millisecond, 1
		e.Observe = func(ev backlog.Event) {
			if ev.Kind == backlog.AttemptEnded && ev.Err != nil {
				failure = ev.Err.Error()
			}
		}
	})
	if r.Failed != 1 || failure != "statement 2: timed out after 100ms" {
		t.Errorf("got %+v, %q", r, failure)
	}
	f.wantRows("SELECT * FROM stock", "'apple' 5", "'plum' 0")
	w = newWork(t, s, "UPDATE stock SET n = n + 1")
	if r := workPass(t, s, w, nil); r.Succeeded != 2 {
		t.Errorf("got %+v", r)
	}
}

// TestWorkStopped: the stop ends a statement when its time to finish is over,
// and the record is as it was.
func TestWorkStopped(t *testing.T) {
	f := orders(t)
	s := f.store(plainMapping())
	endless := "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) INSERT INTO shipped SELECT :id, count(*) FROM n"
	hard := make(chan struct{})
	e := &backlog.Engine{Store: s, Handler: newWork(t, s, "UPDATE stock SET n = n + 1", endless), Concurrency: 2, Hard: hard}
	time.AfterFunc(100*time.Millisecond, func() { close(hard) })
	r, err := e.Pass(context.Background(), backlog.Pass{MaxAge: ages, Now: noon})
	if err != nil || r.Interrupted != 2 || r.Selected != 2 {
		t.Errorf("got %+v, %v, want 2 interrupted", r, err)
	}
	f.wantRows("SELECT status FROM BACKLOG", "'NEW'", "'NEW'")
	f.wantRows("SELECT * FROM stock", "'apple' 5", "'plum' 0")
}
