package logging

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
)

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
