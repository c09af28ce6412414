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

// NewLog returns a logger of the level and format: "text", "json", or "auto", which is text on a
// terminal and JSON elsewhere. If w is a queue, or a [Screen] over one, it also logs how many lines
// the queue has dropped.
func NewLog(level slog.Level, format string, w io.Writer) *slog.Logger {
	s, terminal := w.(*Screen)
	q, _ := w.(*logqueue.Queue)
	if terminal {
		q = s.w
	}
	if q != nil {
		direct := slog.New(newHandler(level, format, q.Dest(), terminal))
		q.OnDropped(func(n int64) { direct.Warn("log lines were dropped: the log was not read", "lines", n) })
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

// exchanges is the handler of [ShowExchanges].
type exchanges struct {
	slog.Handler
	show func(text string)
}

// ShowExchanges returns a handler that gives to show what a record's handler has sent and got. All
// other lines go to h.
func ShowExchanges(h slog.Handler, show func(text string)) slog.Handler { return exchanges{h, show} }

// Enabled implements [slog.Handler].
func (e exchanges) Enabled(context.Context, slog.Level) bool { return true }

// Handle implements [slog.Handler].
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
