package cmd

import (
	"context"
	"fmt"
	"io"
	"math"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"

	"backlog/backlog"
	"backlog/backlog/logqueue"
	"backlog/backlog/table"
)

const (
	// longPass is how long a pass runs before it gets a bar.
	longPass = time.Second
	// longSimulation is the same for a simulation.
	longSimulation = time.Second / 2
	// steps are what a simulation's bar counts.
	steps = 1000
	// redraw is how often the bar is drawn at most.
	redraw = 100 * time.Millisecond
)

// A progress shows on a terminal how far a long pass is, one pass at a time, and
// hands every event on.
type progress struct {
	*screen // its mutex guards what follows; its bar is nil: no pass is shown
	table   *table.Table
	next    func(backlog.Event)

	tier      string // whose pass is shown
	began     time.Time
	done      int  // attempts
	counted   bool // the bar has its end
	stopCount context.CancelFunc
}

func newProgress(w io.Writer, t *table.Table, next func(backlog.Event)) func(backlog.Event) {
	s, ok := w.(*screen)
	if !ok {
		return next
	}
	return (&progress{screen: s, table: t, next: next}).Observe
}

// Observe takes one event.
func (p *progress) Observe(ev backlog.Event) {
	p.next(ev)
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case ev.Kind == backlog.PassStarted && p.bar == nil:
		p.passStarted(ev.Report)
	case p.bar == nil || ev.Tier != p.tier:
	case ev.Kind == backlog.AttemptEnded:
		p.done++
		if p.counted && time.Since(p.began) >= longPass {
			progressbar.OptionThrottle(redraw)(p.bar)
		}
		p.bar.Add(1)
	case ev.Kind == backlog.PassEnded:
		p.stopCount()
		p.bar.Clear()
		p.bar = nil
	}
}

// passStarted starts the bar's clock with the pass, so that its rate is the pass's,
// and counts what is pending before outcomes change that.
func (p *progress) passStarted(pass *backlog.Report) {
	p.newBar(shown(pass.Tier), math.MaxInt64, progressbar.OptionShowCount(), progressbar.OptionShowIts(), progressbar.OptionSetItsString("records"))
	p.tier, p.began, p.done, p.counted = pass.Tier, time.Now(), 0, false
	var ctx context.Context
	ctx, p.stopCount = context.WithCancel(context.Background())
	go p.count(ctx, p.bar, *pass)
}

// count tells the bar how many records there are.
func (p *progress) count(ctx context.Context, bar *progressbar.ProgressBar, pass backlog.Report) {
	c, err := p.table.Count(ctx, pass.Started, []time.Duration{pass.MaxAge})
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
func (s *screen) newBar(name string, length int64, more ...progressbar.Option) *progressbar.ProgressBar {
	s.bar = progressbar.NewOptions64(length, append(more,
		progressbar.OptionSetWriter(s.w),
		progressbar.OptionSetDescription(name),
		progressbar.OptionThrottle(math.MaxInt64),
		progressbar.OptionClearOnFinish(),
	)...)
	s.bar.Reset() // sets the clock
	return s.bar
}

// A gauge shows on a terminal how far a long simulation is. A nil gauge shows
// nothing.
type gauge screen

// begin starts a new bar of so many steps, -1 if the number is not known.
func (u *gauge) begin(name string, length int64, more ...progressbar.Option) {
	u.end()
	u.mu.Lock()
	defer u.mu.Unlock()
	bar := (*screen)(u).newBar(name, length, append(more, progressbar.OptionSetSpinnerChangeInterval(0), progressbar.OptionSetElapsedTime(true))...)
	time.AfterFunc(longSimulation, func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		if u.bar == bar {
			progressbar.OptionThrottle(redraw)(bar)
			bar.RenderBlank() // the first progress may be long in coming
		}
	})
}

// show moves the bar to so many steps.
func (u *gauge) show(name string, done int64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	progressbar.OptionSetDescription(name)(u.bar)
	u.bar.Set64(done)
}

// end takes the bar away.
func (u *gauge) end() {
	if u == nil {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.bar != nil {
		u.bar.Clear()
		u.bar = nil
	}
}

// reading returns a function that counts the rows that are read.
func (u *gauge) reading() (row func()) {
	if u == nil {
		return func() {}
	}
	const what = "reading the table"
	u.begin(what, -1, progressbar.OptionShowCount(), progressbar.OptionShowIts(), progressbar.OptionSetItsString("rows"))
	read := int64(0)
	return func() {
		if read++; read%1000 == 0 {
			u.show(what, read)
		}
	}
}

// simulating returns a function that takes the progress of the i-th candidate, from
// 0; nil without a terminal.
func (u *gauge) simulating(name string, i, candidates int) func(done, of int) {
	if u == nil {
		return nil
	}
	name = shown(name)
	if r := []rune(name); len(r) > 30 { // a line is all there is
		name = string(r[:29]) + "…"
	}
	if candidates > 1 {
		name += fmt.Sprintf(" (%d of %d)", i+1, candidates)
	}
	if i == 0 {
		u.begin(name, int64(steps*candidates))
	}
	return func(done, of int) {
		// The end is for what comes after.
		u.show(name, int64(steps*i)+min(steps-1, steps*int64(done)/int64(of)))
	}
}

// A screen is a terminal on whose last line there may be a bar. The bar makes
// way for whatever else is written, of whomever it comes.
type screen struct {
	w *logqueue.Queue

	mu  sync.Mutex
	bar *progressbar.ProgressBar // nil: none
}

// onScreen returns the queue as a screen if it leads to a terminal.
func onScreen(q *logqueue.Queue) io.Writer {
	if !isTerminal(q.To()) {
		return q
	}
	return &screen{w: q}
}

func (s *screen) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.bar != nil {
		s.bar.Clear()
	}
	return s.w.Write(b)
}
