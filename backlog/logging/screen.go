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
	// barDelay is how long a pass or a simulation runs before its bar is drawn.
	barDelay = time.Second
	// steps is how many steps the bar has for each candidate of a simulation.
	steps = 1000
	// redrawInterval is the shortest time between two drawings of the bar.
	redrawInterval = 100 * time.Millisecond
)

// A progress shows on a terminal how far a pass has come, one pass at a time, and gives every event
// to next.
type progress struct {
	*Screen // its mutex guards what follows; without a bar no pass is shown
	pending counter
	next    func(backlog.Event)

	tier      string // of the pass that is shown
	done      int    // attempts
	counted   bool   // the bar knows its end
	stopCount context.CancelFunc
}

// A counter counts the pending records of a table.
type counter func(ctx context.Context, now time.Time, ages []time.Duration) (inspect.Counts, error)

// ShowPasses returns an observer that gives every event to next. If w is a [Screen], it also shows
// there how far a pass has come. pending counts the pass's table.
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
		p.done++
		if p.counted {
			p.show(inspect.Shown(p.tier), p.done)
		}
	case ev.Kind == backlog.PassEnded:
		p.stopCount()
		p.bar.Clear()
		p.bar = nil
	}
}

// passStarted makes the bar and begins to count what is pending, before outcomes change that. The
// bar's clock starts with the pass, so that it shows the pass's rate.
func (p *progress) passStarted(pass *backlog.Report) {
	p.newBar(math.MaxInt, progressbar.OptionShowCount(), progressbar.OptionShowIts(), progressbar.OptionSetItsString("records"))
	p.tier = pass.Tier
	p.done = 0
	p.counted = false
	var ctx context.Context
	ctx, p.stopCount = context.WithCancel(context.Background())
	go p.count(ctx, p.bar, *pass)
}

// count counts the pending records and sets the end of the bar.
func (p *progress) count(ctx context.Context, bar *progressbar.ProgressBar, pass backlog.Report) {
	c, err := p.pending(ctx, pass.Started, []time.Duration{pass.MaxAge})
	if err != nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	end := c.Bands[0].Fresh + c.Bands[0].Failed
	if p.bar == bar && end > p.done {
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
	s.bar.Reset() // starts its clock
}

// show moves the bar to so many steps, and draws it if it exists for longer than barDelay. The
// caller holds the lock.
func (s *Screen) show(name string, done int) {
	if time.Since(s.began) >= barDelay {
		progressbar.OptionThrottle(redrawInterval)(s.bar)
	}
	progressbar.OptionSetDescription(name)(s.bar)
	s.bar.Set(done)
}

// Hide removes the bar. The Screen may be nil.
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

// Simulating returns a function that shows the progress of the i-th candidate of a simulation,
// counted from 0. It returns nil for a nil Screen: there is no terminal.
func (s *Screen) Simulating(name string, i, candidates int) func(done, of int) {
	if s == nil {
		return nil
	}
	name = inspect.Elide(inspect.Shown(name), 30) // the bar has one line
	if candidates > 1 {
		name += fmt.Sprintf(" (%d of %d)", i+1, candidates)
	}
	return func(done, of int) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.bar == nil {
			s.newBar(steps * candidates)
		}
		ofCandidate := min(steps-1, steps*done/of) // at the last step, the bar would vanish
		s.show(name, steps*i+ofCandidate)
	}
}

// A Screen is a terminal whose last line may show a progress bar. Everything else that is written to
// the terminal goes through Write, which removes the bar first.
type Screen struct {
	w *logqueue.Queue

	mu    sync.Mutex
	bar   *progressbar.ProgressBar // nil: none
	began time.Time                // when the bar was made
}

// OnScreen returns a [Screen] over the queue if that writes to a terminal, else the queue itself.
func OnScreen(q *logqueue.Queue) io.Writer {
	if !isTerminal(q.Dest()) {
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
