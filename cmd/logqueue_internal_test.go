package cmd

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"backlog/backlog/config"
)

// A stallingWriter writes to a buffer while it is open, and else blocks.
type stallingWriter struct {
	mu  sync.Mutex // held while nobody reads
	out bytes.Buffer
}

func (w *stallingWriter) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.out.Write(b)
}

// A reader who stands still costs log lines, and is told how many.
func TestLogQueueDrops(t *testing.T) {
	w := new(stallingWriter)
	q := newLogQueue(w)
	log := newLog(config.Log{Format: "json"}, q)
	w.mu.Lock()
	for i := range 3 * maxLogLines {
		log.Info(fmt.Sprint("line ", i))
	}
	w.mu.Unlock()
	q.close()
	got := w.out.String()
	if n := strings.Count(got, `"msg":"line `); n != maxLogLines || !strings.Contains(got, `"msg":"line 0"`) {
		t.Errorf("%d lines are written, want %d", n, maxLogLines)
	}
	if want := fmt.Sprintf(`"level":"WARN","msg":"log lines are dropped: nobody has read the log","lines":%d}`, 2*maxLogLines); strings.Count(got, want) != 1 {
		t.Errorf("the reader is not told of them: no %s", want)
	}
}

// Long lines fill the queue before there are many of them; a single one has room
// whatever its length.
func TestLogQueueIsBoundedByBytes(t *testing.T) {
	w := new(stallingWriter)
	q := newLogQueue(w)
	w.mu.Lock()
	long := bytes.Repeat([]byte("x"), maxLogBytes*2/3)
	for range 3 {
		q.Write(long)
	}
	if n := len(q.lines); n != 1 {
		t.Errorf("%d lines wait, want 1", n)
	}
	w.mu.Unlock()
	q.flush()
	q.Write(append(long, long...))
	q.close()
	if n := bytes.Count(w.out.Bytes(), []byte("x")); n != 3*len(long) {
		t.Errorf("%d bytes are written, want %d", n, 3*len(long))
	}
}

// A flush waits a second for a reader who stands still, once until that one moves.
func TestLogQueueFlush(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, w := io.Pipe()
		q := newLogQueue(w)
		q.Write([]byte("one\n"))
		for i, want := range []time.Duration{time.Second, 0, time.Second} {
			began := time.Now()
			q.flush()
			if took := time.Since(began); took != want {
				t.Errorf("flush %d took %v, want %v", i, took, want)
			}
			if i == 1 {
				r.Read(make([]byte, 4))
				synctest.Wait()
				q.Write([]byte("two\n"))
			}
		}
		r.Close()
		synctest.Wait()
		began := time.Now()
		q.close()
		if took := time.Since(began); took != 0 {
			t.Errorf("nothing waits, and the end took %v", took)
		}
	})
}
