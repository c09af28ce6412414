package logging

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"

	"golang.org/x/term"

	"backlog/backlog/logqueue"
)

// NewLog returns a logger of the level and format: text, json, or auto, which is text on a
// terminal alone. Over a queue it also says what the queue has dropped.
func NewLog(level slog.Level, format string, w io.Writer) *slog.Logger {
	s, terminal := w.(*Screen)
	q, _ := w.(*logqueue.Queue)
	if terminal {
		q = s.w
	}
	if q != nil {
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

type exchanges struct {
	slog.Handler
	show func(text string)
}

// ShowExchanges returns a handler that shows what handlers log of an attempt. Other lines
// go to h.
func ShowExchanges(h slog.Handler, show func(text string)) slog.Handler { return exchanges{h, show} }

func (e exchanges) Enabled(context.Context, slog.Level) bool { return true }

func (e exchanges) Handle(ctx context.Context, line slog.Record) error {
	if line.Message != "exchange" {
		if e.Handler.Enabled(ctx, line.Level) {
			return e.Handler.Handle(ctx, line)
		}
		return nil
	}
	line.Attrs(func(a slog.Attr) bool {
		if a.Key == "sent" || a.Key == "got" {
			e.show(fmt.Sprintf("%s:\n%s\n", a.Key, strings.TrimRight(a.Value.String(), "\n")))
		}
		return true
	})
	return nil
}
