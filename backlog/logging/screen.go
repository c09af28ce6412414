package logging

import (
	"context"
	"fmt"
	"io"
	"math"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"

	"backlog/backlog"
	"backlog/backlog/inspect"
	"backlog/backlog/logqueue"
)

const (
	// longWork is how long a pass or a simulation runs before its bar is drawn.
	longWork = time.Second
	// steps are what a simulation's bar counts.
	steps = 1000
	// redraw is how often the bar is drawn at most.
	redraw = 100 * time.Millisecond
)

// A progress shows on a terminal how far a long pass is, one pass at a time, and
// hands every event on.
type progress struct {
	*Screen // its mutex guards what follows; its bar is nil: no pass is shown
	pending counter
	next    func(backlog.Event)

	tier      string // whose pass is shown
	done      int    // attempts
	counted   bool   // the bar has its end
	stopCount context.CancelFunc
}

// A counter counts the pending records of a table.
type counter func(ctx context.Context, now time.Time, ages []time.Duration) (inspect.Counts, error)

// ShowPasses returns an observer that shows on w, if that is a [Screen], how far a pass
// over the table that pending counts is, and hands every event on to next.
func ShowPasses(w io.Writer, pending counter, next func(backlog.Event)) func(backlog.Event) {
	s, ok := w.(*Screen)
	if !ok {
		return next
	}
	return (&progress{Screen: s, pending: pending, next: next}).observe
}

// observe takes one event.
func (p *progress) observe(ev backlog.Event) {
	p.next(ev)
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case ev.Kind == backlog.PassStarted && p.bar == nil:
		p.passStarted(ev.Report)
	case p.bar == nil || ev.Tier != p.tier:
	case ev.Kind == backlog.AttemptEnded:
		if p.done++; p.counted {
			p.show(inspect.Shown(p.tier), p.done)
		}
	case ev.Kind == backlog.PassEnded:
		p.stopCount()
		p.bar.Clear()
		p.bar = nil
	}
}

// passStarted starts the bar's clock with the pass, so that its rate is the pass's,
// and counts what is pending before outcomes change that.
func (p *progress) passStarted(pass *backlog.Report) {
	p.newBar(math.MaxInt, progressbar.OptionShowCount(), progressbar.OptionShowIts(), progressbar.OptionSetItsString("records"))
	p.tier, p.done, p.counted = pass.Tier, 0, false
	var ctx context.Context
	ctx, p.stopCount = context.WithCancel(context.Background())
	go p.count(ctx, p.bar, *pass)
}

// count tells the bar how many records there are.
func (p *progress) count(ctx context.Context, bar *progressbar.ProgressBar, pass backlog.Report) {
	c, err := p.pending(ctx, pass.Started, []time.Duration{pass.MaxAge})
	if err != nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if end := c.Bands[0].Fresh + c.Bands[0].Failed; p.bar == bar && end > p.done {
		bar.ChangeMax(end)
		p.counted = true
	}
}

// newBar makes the screen's bar, which is not drawn yet. The caller holds the lock.
func (s *Screen) newBar(length int, more ...progressbar.Option) {
	s.began = time.Now()
	s.bar = progressbar.NewOptions(length, append(more,
		progressbar.OptionSetWriter(s.w),
		progressbar.OptionThrottle(math.MaxInt64),
		progressbar.OptionClearOnFinish(),
	)...)
	s.bar.Reset() // sets the clock
}

// show moves the bar to so many steps, and draws it if it has been there for long.
// The caller holds the lock.
func (s *Screen) show(name string, done int) {
	if time.Since(s.began) >= longWork {
		progressbar.OptionThrottle(redraw)(s.bar)
	}
	progressbar.OptionSetDescription(name)(s.bar)
	s.bar.Set(done)
}

// Hide takes the bar away. A nil Screen has none.
func (s *Screen) Hide() {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.bar != nil {
		s.bar.Clear()
		s.bar = nil
	}
}

// Simulating returns a function that takes the progress of the i-th candidate of a
// simulation, from 0, and shows it; nil without a terminal.
func (s *Screen) Simulating(name string, i, candidates int) func(done, of int) {
	if s == nil {
		return nil
	}
	name = inspect.Elide(inspect.Shown(name), 30) // a line is all there is
	if candidates > 1 {
		name += fmt.Sprintf(" (%d of %d)", i+1, candidates)
	}
	return func(done, of int) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.bar == nil {
			s.newBar(steps * candidates)
		}
		s.show(name, steps*i+min(steps-1, steps*done/of)) // the end is for what comes after
	}
}

// A Screen is a terminal on whose last line there may be a bar. The bar makes
// way for whatever else is written, of whomever it comes.
type Screen struct {
	w *logqueue.Queue

	mu    sync.Mutex
	bar   *progressbar.ProgressBar // nil: none
	began time.Time                // of the bar
}

// OnScreen returns the queue, as a [Screen] if it leads to a terminal.
func OnScreen(q *logqueue.Queue) io.Writer {
	if !isTerminal(q.To()) {
		return q
	}
	return &Screen{w: q}
}

// Write implements [io.Writer].
func (s *Screen) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.bar != nil {
		s.bar.Clear()
	}
	return s.w.Write(b)
}
