package cmd

import (
	"io"
	"log/slog"
	"os"

	"golang.org/x/term"

	"backlog/backlog/config"
	"backlog/backlog/logqueue"
)

// newLog returns the logger that the configuration asks for. Over a queue it also
// says what the queue has dropped.
func newLog(c config.Log, w io.Writer) *slog.Logger {
	s, terminal := w.(*screen)
	q, queued := w.(*logqueue.Queue)
	if terminal {
		q, queued = s.w, true
	}
	if queued {
		late := slog.New(logHandler(c, q.To(), terminal))
		q.OnDropped(func(n int64) { late.Warn("log lines are dropped: nobody has read the log", "lines", n) })
	}
	h := logHandler(c, w, terminal)
	if terminal {
		h = onTerminal{h}
	}
	return slog.New(h)
}

func logHandler(c config.Log, w io.Writer, terminal bool) slog.Handler {
	o := &slog.HandlerOptions{Level: c.Level}
	if c.Format == "json" || c.Format == "auto" && !terminal {
		return slog.NewJSONHandler(w, o)
	}
	return slog.NewTextHandler(w, o)
}

// onTerminal marks the log that people read as it comes.
type onTerminal struct{ slog.Handler }

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
