package cmd

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"backlog/backlog"
	"backlog/backlog/checkpoint"
	"backlog/backlog/logging"
	"backlog/backlog/watch"
)

// countTimeout bounds the count of the pending records for the log of an outage.
const countTimeout = 5 * time.Second

// A history logs events, saves in the state folder what passes leave behind, and calls on_outage. What
// may take long is done by two goroutines of its own, so that passes do not wait for it.
type history struct {
	*logging.Observer
	state  *checkpoint.File
	single bool // passes are over one record and are not saved

	warned sync.Once // of a state file that cannot be used

	setup  atomic.Pointer[setup] // the current one; a reload replaces it
	ctx    context.Context
	cancel context.CancelFunc
	saves  chan func()   // writes to the state folder
	calls  chan func()   // calls of on_outage, which may hang
	done   chan struct{} // closed when both queues are closed and empty
}

// newHistory returns a history. It must be ended by [history.end].
func (a *setup) newHistory(state *checkpoint.File, p *watch.Picture) *history {
	h := &history{
		Observer: logging.New(a.log),
		state:    state,
		saves:    make(chan func(), 100),
		calls:    make(chan func(), 100),
		done:     make(chan struct{}),
	}
	h.Picture = p
	h.Dead = a.table.HasDead()
	h.OnOutage = h.outageChanged
	h.ctx, h.cancel = context.WithCancel(context.Background())
	h.setup.Store(a)
	h.restore(false)
	go callAll(h.saves, h.calls)
	go callAll(h.calls, h.done)
	return h
}

// callAll calls the functions of the queue, one after another, until it is closed. Then it closes next.
func callAll[T any](queue <-chan func(), next chan<- T) {
	defer close(next)
	for f := range queue {
		f()
	}
}

// restore loads the outage that earlier processes have saved and, for pages, their passes.
func (h *history) restore(pages bool) {
	s, err := h.state.State()
	h.warnOnce(err)
	var passes []watch.Pass
	if pages {
		passes, err = h.state.Passes()
		h.warnOnce(err)
	}
	h.Picture.Restore(passes, s.Outages, s.Outage)
}

// end waits until everything is saved and on_outage is called, or until the second signal.
func (h *history) end() {
	close(h.saves)
	select {
	case <-h.done:
	case <-h.setup.Load().hard:
		h.cancel()
	}
	h.End()
}

// Observe handles one event.
func (h *history) Observe(ev backlog.Event) {
	if ev.Kind == backlog.StateFailed {
		h.warnOnce(ev.Err)
		return
	}
	h.Observer.Observe(ev)
	if ev.Kind == backlog.PassEnded && !h.single {
		p := *h.Picture.Last(ev.Tier)
		p.Table = stateName(h.setup.Load().cfg)
		h.saves <- func() {
			h.warnOnce(h.state.AddPass(p))
			if h.Picture.Outage() != nil {
				h.saveOutage()
			}
		}
	}
}

const stateUnusable = "the state file cannot be used, a restart may not know what was missed"

// warnOnce logs the first error of the state file.
func (h *history) warnOnce(err error) {
	if err != nil {
		h.warned.Do(func() { h.Log.Warn(stateUnusable, "error", err) })
	}
}

func (h *history) saveOutage() {
	h.warnOnce(h.state.Change(func(s *checkpoint.State) {
		s.Outage = h.Picture.Outage()
		s.Outages = h.Picture.Outages()
	}))
}

// outageChanged counts the pending records, then logs and saves the outage and calls on_outage. Of one that is over it
// also finds out by when its backlog is done.
func (h *history) outageChanged(change watch.Change, o watch.Outage, at time.Time) {
	h.saves <- func() {
		a := h.setup.Load()
		ctx, cancel := context.WithTimeout(h.ctx, countTimeout)
		if s, err := a.view.Status(ctx, at); err == nil {
			o.Pending = s.Pending
			h.Picture.SetPending(o.Since, s.Pending)
		}
		cancel()
		if change == watch.Recovered {
			o.DrainedBy = a.drainedBy(h.ctx, o, at, h.passes())
			h.Picture.SetBacklog(o)
			h.warnOnce(h.state.AddOutage(o, at))
		}
		h.Outage(change, o, at)
		h.saveOutage()
		word := ""
		switch change {
		case watch.Began:
			word = "began"
		case watch.Recovered:
			word = "recovered"
		}
		if word == "" || a.onOutage == nil {
			return
		}
		h.calls <- func() {
			if err := a.callOnOutage(h.ctx, word, o); err != nil {
				h.Log.Error("on_outage failed: the notification of the outage was not delivered", "outage", word, "error", err)
			}
		}
	}
}

// passes returns the passes that are known, those of earlier processes included.
func (h *history) passes() []watch.Pass {
	saved, err := h.state.Passes()
	h.warnOnce(err)
	if len(saved) == 0 {
		saved = h.Picture.Passes()
		slices.Reverse(saved) // the oldest first, as in the file
	}
	return saved
}

// callOnOutage calls on_outage with a record about the outage.
func (a *setup) callOnOutage(ctx context.Context, word string, o watch.Outage) error {
	since := backlog.TimeText(o.Since)
	return backlog.Call(ctx, a.onOutage, a.cfg.OnOutage.Timeout, &backlog.Record{
		Key: backlog.NewKey("outage " + since + " " + word), Inserted: o.Since, Alert: true,
		Names:  outageColumns,
		Values: []any{word, o.Cause, since, int64(o.Pending)},
	})
}
