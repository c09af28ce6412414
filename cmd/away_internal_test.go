package cmd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"backlog/backlog"
	"backlog/backlog/table"
)

func TestWhenThere(t *testing.T) {
	t.Parallel()
	away, wrong := fmt.Errorf("%w: locked", backlog.ErrUnavailable), errors.New("wrong")
	denied := &table.Problem{What: "no right", Denied: true}
	for _, tt := range []struct {
		name     string
		patience time.Duration
		stop     time.Duration // 0: never
		errs     func(time.Duration) error
		want     error
		after    time.Duration
		said     string // "ERROR WARN": away and back
	}{
		{"there", 0, 0, func(time.Duration) error { return nil }, nil, 0, ""},
		{"wrong", 0, 0, func(time.Duration) error { return wrong }, wrong, 0, ""},
		{"back after an hour", 0, 0, func(d time.Duration) error {
			if d < time.Hour {
				return away
			}
			return nil
		}, nil, time.Hour, "ERROR" + strings.Repeat(" WARN", 12)},
		{"back and wrong", 0, 0, func(d time.Duration) error {
			if d < time.Minute {
				return away
			}
			return wrong
		}, wrong, time.Minute, "ERROR"},
		{"away for longer than once waits", openPatience, 0, func(time.Duration) error { return away }, backlog.ErrUnavailable, openPatience, "ERROR"},
		{"granted bit by bit", 0, 0, func(d time.Duration) error {
			switch {
			case d < time.Minute:
				return denied
			case d < 2*time.Minute:
				return fmt.Errorf("table jobs: %w", denied)
			}
			return nil
		}, nil, 2 * time.Minute, "ERROR ERROR WARN"},
		{"once waits for no right", openPatience, 0, func(time.Duration) error { return denied }, denied, 0, ""},
		{"stopped", 0, 90 * time.Second, func(time.Duration) error { return away }, context.Canceled, 90 * time.Second, "ERROR"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if tt.stop > 0 {
					time.AfterFunc(tt.stop, cancel)
				}
				var out bytes.Buffer
				began := time.Now()
				_, waited, err := retryOpen(ctx, slog.New(slog.NewTextHandler(&out, nil)), "database", tt.patience, func() (*setup, error) {
					return nil, tt.errs(time.Since(began))
				})
				if took := time.Since(began); !errors.Is(err, tt.want) || took != tt.after {
					t.Errorf("got %v after %v, want %v after %v", err, took, tt.want, tt.after)
				}
				if waited != (tt.after > 0) {
					t.Errorf("waited is %t after %v", waited, tt.after)
				}
				var said []string
				for line := range strings.Lines(out.String()) {
					said = append(said, strings.TrimPrefix(strings.Fields(line)[1], "level="))
				}
				if got := strings.Join(said, " "); got != tt.said {
					t.Errorf("it logs %q, want %q", got, tt.said)
				}
			})
		})
	}
}
