package cmd

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"backlog/backlog"
	"backlog/backlog/checkpoint"
	"backlog/backlog/logging"
	"backlog/backlog/watch"
)

// countPatience is how long the pending records are counted for a line about an outage.
const countPatience = 5 * time.Second

// A history logs what happens, keeps in the state folder what passes leave behind, and
// tells of outages. What may take long comes behind the passes.
type history struct {
	*logging.Observer
	state  *checkpoint.File
	single bool // of one record: no pass to look back at

	bad sync.Once

	setup  atomic.Pointer[setup] // another one after each reload
	ctx    context.Context
	cancel context.CancelFunc
	work   chan func()   // what is kept
	tells  chan func()   // calls of on_outage, which may hang
	done   chan struct{} // closed when both are at their end
}

// newHistory returns a history, which is ended by its method end.
func (a *setup) newHistory(state *checkpoint.File, p *watch.Picture) *history {
	c := &history{
		Observer: logging.New(a.log), state: state,
		work: make(chan func(), 100), tells: make(chan func(), 100), done: make(chan struct{}),
	}
	c.Picture = p
	c.Dead = a.table.HasDead()
	c.OnOutage = c.changed
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.setup.Store(a)
	c.restore(false)
	go callAll(c.work, c.tells)
	go callAll(c.tells, c.done)
	return c
}

// callAll calls what comes, one after another, until the queue is closed. Then it closes next.
func callAll[T any](queue <-chan func(), next chan<- T) {
	defer close(next)
	for f := range queue {
		f()
	}
}

// restore goes on with the outage that whoever worked before has seen and, for pages,
// with the passes.
func (c *history) restore(pages bool) {
	s, err := c.state.State()
	c.keep(err)
	var passes []watch.Pass
	if pages {
		passes, err = c.state.Passes()
		c.keep(err)
	}
	c.Picture.Restore(passes, s.Outages, s.Outage)
}

// end waits until all is kept and told, or the end is a hard one.
func (c *history) end() {
	close(c.work)
	select {
	case <-c.done:
	case <-c.setup.Load().hard:
		c.cancel()
	}
	c.End()
}

// Observe takes one event.
func (c *history) Observe(ev backlog.Event) {
	if ev.Kind == backlog.StateFailed {
		c.keep(ev.Err)
		return
	}
	c.Observer.Observe(ev)
	if ev.Kind == backlog.PassEnded && !c.single {
		p := *c.Picture.Last(ev.Tier)
		c.work <- func() {
			c.keep(c.state.AddPass(p))
			if c.Picture.Outage() != nil {
				c.keepOutage()
			}
		}
	}
}

// badState is said once, of what first cannot be read or kept.
const badState = "the state file cannot be used, a restart may not know what was missed"

func (c *history) keep(err error) {
	if err != nil {
		c.bad.Do(func() { c.Log.Warn(badState, "error", err) })
	}
}

func (c *history) keepOutage() {
	c.keep(c.state.Change(func(s *checkpoint.State) { s.Outage, s.Outages = c.Picture.Outage(), c.Picture.Outages() }))
}

// changed counts the pending records and then says what has become of the outage.
func (c *history) changed(change watch.Change, o watch.Outage, at time.Time) {
	c.work <- func() {
		a := c.setup.Load()
		ctx, cancel := context.WithTimeout(c.ctx, countPatience)
		if s, err := a.view.Status(ctx, at); err == nil {
			o.Pending = s.Pending
			c.Picture.Counted(o.Since, s.Pending)
		}
		cancel()
		c.Outage(change, o, at)
		c.keepOutage()
		if word := map[watch.Change]string{watch.Began: "began", watch.Recovered: "recovered"}[change]; word != "" && a.onOutage != nil {
			c.tells <- func() {
				if err := a.tellOutage(c.ctx, word, o); err != nil {
					c.Log.Error("on_outage failed: nobody has been told of the outage", "outage", word, "error", err)
				}
			}
		}
	}
}

// tellOutage calls on_outage.
func (a *setup) tellOutage(ctx context.Context, word string, o watch.Outage) error {
	since := backlog.TimeText(o.Since)
	return backlog.Call(ctx, a.onOutage, a.cfg.OnOutage.Timeout, &backlog.Record{
		Key: backlog.NewKey("outage " + since + " " + word), Inserted: o.Since, Alert: true,
		Names:  outageColumns,
		Values: []any{word, o.Cause, since, int64(o.Pending)},
	})
}
