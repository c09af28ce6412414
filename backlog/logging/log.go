package logging

import (
	"io"
	"log/slog"
	"os"

	"golang.org/x/term"

	"backlog/backlog/logqueue"
)

// NewLog returns a logger of the level and format: text, json, or auto, which is text on a
// terminal alone. Over a queue it also says what the queue has dropped.
func NewLog(level slog.Level, format string, w io.Writer) *slog.Logger {
	s, terminal := w.(*Screen)
	q, queued := w.(*logqueue.Queue)
	if terminal {
		q, queued = s.w, true
	}
	if queued {
		late := slog.New(newHandler(level, format, q.To(), terminal))
		q.OnDropped(func(n int64) { late.Warn("log lines are dropped: nobody has read the log", "lines", n) })
	}
	return slog.New(newHandler(level, format, w, terminal))
}

func newHandler(level slog.Level, format string, w io.Writer, terminal bool) slog.Handler {
	o := &slog.HandlerOptions{Level: level}
	if format == "json" || format == "auto" && !terminal {
		return slog.NewJSONHandler(w, o)
	}
	return slog.NewTextHandler(w, o)
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
