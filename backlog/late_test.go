package backlog_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"backlog/backlog"
	"backlog/backlog/memory"
)

// A closed is a handler that takes nothing for a while, and then hears of one record that
// it was given in another life.
type closed struct {
	backlog.HandlerFunc
	until, hears time.Time
	late         []backlog.Record
}

func (c *closed) Closed(context.Context) (time.Duration, error) { return time.Until(c.until), nil }

func (c *closed) CollectLate(ctx context.Context, settle func(context.Context, []backlog.Record, []backlog.Answer) ([]error, error)) error {
	if len(c.late) == 0 || time.Now().Before(c.hears) {
		return nil
	}
	reasons, err := settle(ctx, c.late, make([]backlog.Answer, len(c.late)))
	if err == nil && reasons[0] == nil {
		c.late = nil
	}
	return err
}

// While a handler takes nothing no record is at work, however many passes wait: what it
// hears meanwhile is settled then.
func TestClosedHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, memory.Options{}, succeed)
		b.add(t, "NEW", 1, 3, time.Minute)
		began := time.Now()
		page, err := b.table.Pending(t.Context(), backlog.Query{Now: began, Since: began.Add(-day), Limit: 1})
		if err != nil {
			t.Fatal(err)
		}
		h := &closed{HandlerFunc: b.calls.Handle, until: began.Add(100 * time.Second), hears: began.Add(2500 * time.Millisecond), late: page.Records}
		b.Handler, b.Concurrency = h, 1
		for _, tier := range []string{"1d", "7d"} {
			go b.Pass(t.Context(), backlog.Pass{Tier: tier, MaxAge: day})
		}
		time.Sleep(4 * time.Second)
		synctest.Wait()
		if status := b.status(t, 1); status != "SUCCESS" {
			t.Errorf("after %v: %s", time.Since(began), status)
		}
		time.Sleep(97 * time.Second)
		synctest.Wait()
		if n := len(b.calls.ids()); n != 2 {
			t.Errorf("%d calls, want 2", n)
		}
	})
}
