package cmd

import (
	"context"
	"io"
	"math"
	"time"

	"github.com/schollz/progressbar/v3"

	"backlog/backlog"
)

const (
	// longPass is how long a pass runs before it is worth a bar.
	longPass = time.Second
	// redraw is how often the bar is drawn at most.
	redraw = 100 * time.Millisecond
)

// A progress shows on a terminal how far a long pass is, one at a time, and
// passes every event on. To anything but a terminal it shows nothing.
type progress struct {
	*screen // its mutex guards what follows; its bar is nil: no pass is shown
	table   backlog.Counter
	next    func(backlog.Event)

	tier      string // whose pass is shown
	began     time.Time
	done      int  // attempts
	counted   bool // the bar has its end
	stopCount context.CancelFunc
}

func newProgress(w io.Writer, t backlog.Counter, next func(backlog.Event)) func(backlog.Event) {
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
		p.begin(ev.Report)
	case p.bar == nil || ev.Tier != p.tier:
	case ev.Kind == backlog.AttemptEnded:
		p.attempt()
	case ev.Kind == backlog.PassEnded:
		p.stopCount()
		p.bar.Clear()
		p.bar = nil
	}
}

// begin starts the bar's clock with the pass, so that its rate is the pass's,
// and counts what is pending before outcomes change that.
func (p *progress) begin(pass *backlog.Report) {
	p.bar = progressbar.NewOptions64(math.MaxInt64,
		progressbar.OptionSetWriter(p.w),
		progressbar.OptionSetDescription(shown(pass.Tier)),
		progressbar.OptionShowCount(),
		progressbar.OptionShowIts(),
		progressbar.OptionSetItsString("records"),
		progressbar.OptionThrottle(math.MaxInt64), // not yet drawn
		progressbar.OptionClearOnFinish(),
	)
	p.bar.Reset() // sets the clock
	p.tier, p.began, p.done, p.counted = pass.Tier, time.Now(), 0, false
	var ctx context.Context
	ctx, p.stopCount = context.WithCancel(context.Background())
	go p.count(ctx, p.bar, *pass)
}

func (p *progress) attempt() {
	p.done++
	if p.counted && time.Since(p.began) >= longPass {
		progressbar.OptionThrottle(redraw)(p.bar)
	}
	p.bar.Add(1)
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
