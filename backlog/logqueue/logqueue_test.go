package logqueue

import (
	"bytes"
	"io"
	"sync"
	"testing"
	"testing/synctest"
	"time"
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

// Long lines fill the queue before there are many of them; a single one has room
// whatever its length.
func TestLogQueueIsBoundedByBytes(t *testing.T) {
	w := new(stallingWriter)
	q := New(w)
	w.mu.Lock()
	long := bytes.Repeat([]byte("x"), MaxBytes*2/3)
	for range 3 {
		q.Write(long)
	}
	if n := len(q.lines); n != 1 {
		t.Errorf("%d lines wait, want 1", n)
	}
	w.mu.Unlock()
	q.Flush()
	q.Write(append(long, long...))
	q.Close()
	if n := bytes.Count(w.out.Bytes(), []byte("x")); n != 3*len(long) {
		t.Errorf("%d bytes are written, want %d", n, 3*len(long))
	}
}

// A flush waits a second for a reader who stands still, once until that one moves.
func TestLogQueueFlush(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, w := io.Pipe()
		q := New(w)
		q.Write([]byte("one\n"))
		for i, want := range []time.Duration{time.Second, 0, time.Second} {
			began := time.Now()
			q.Flush()
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
		q.Close()
		if took := time.Since(began); took != 0 {
			t.Errorf("nothing waits, and the end took %v", took)
		}
	})
}
