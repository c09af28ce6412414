package logging_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"backlog/backlog/logging"
	"backlog/backlog/logqueue"
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
	q := logqueue.New(w)
	log := logging.NewLog(slog.LevelInfo, "json", q)
	w.mu.Lock()
	for i := range 3 * logqueue.MaxLines {
		log.Info(fmt.Sprint("line ", i))
	}
	w.mu.Unlock()
	q.Close()
	got := w.out.String()
	if n := strings.Count(got, `"msg":"line `); n != logqueue.MaxLines || !strings.Contains(got, `"msg":"line 0"`) {
		t.Errorf("%d lines are written, want %d", n, logqueue.MaxLines)
	}
	if want := fmt.Sprintf(`"level":"WARN","msg":"log lines were dropped: the log was not read","lines":%d}`, 2*logqueue.MaxLines); strings.Count(got, want) != 1 {
		t.Errorf("the reader is not told of them: no %s", want)
	}
}
