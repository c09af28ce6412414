package cmd

import (
	"context"
	"io"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"

	"backlog/backlog"
)

// longPass is how long a pass runs before it is worth a bar.
const longPass = time.Second

// A progress shows on a terminal how far a long pass is, one at a time, and
// passes every event on. To anything but a terminal it shows nothing.
type progress struct {
	w     io.Writer
	table backlog.Counter
	next  func(backlog.Event)

	mu    sync.Mutex
	pass  *backlog.Report // the one that is shown, as it began; nil: none
	done  int             // attempts
	gone  int             // of them those that are no longer pending
	began time.Time
	bar   *progressbar.ProgressBar // nil until the pass is long
}

func newProgress(w io.Writer, t backlog.Counter, next func(backlog.Event)) func(backlog.Event) {
	if !isTerminal(w) {
		return next
	}
	return (&progress{w: w, table: t, next: next}).Observe
}

// Observe takes one event.
func (p *progress) Observe(ev backlog.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case ev.Kind == backlog.PassStarted && p.pass == nil:
		p.pass, p.done, p.gone = ev.Report, 0, 0
		p.began = time.Now()
	case p.pass == nil || ev.Tier != p.pass.Tier:
	case ev.Kind == backlog.AttemptEnded:
		p.attempt(ev)
	case ev.Kind == backlog.PassEnded:
		if p.bar != nil {
			p.bar.Finish()
		}
		p.pass, p.bar = nil, nil
	}
	if p.bar != nil && ev.Kind != backlog.Woke && (ev.Kind != backlog.AttemptEnded || ev.Outcome != backlog.Succeeded) {
		p.bar.Clear() // a line of log may follow
	}
	p.next(ev)
}

func (p *progress) attempt(ev backlog.Event) {
	p.done++
	if ev.Outcome == backlog.Succeeded {
		p.gone++
	}
	if p.bar != nil {
		p.bar.Add(1)
		return
	}
	if time.Since(p.began) < longPass {
		return
	}
	// Without an end the bar only turns; how many there are may take a
	// while to count.
	p.bar = progressbar.NewOptions(-1,
		progressbar.OptionSetWriter(p.w),
		progressbar.OptionSetDescription(p.pass.Tier),
		progressbar.OptionShowCount(),
		progressbar.OptionShowIts(),
		progressbar.OptionSetItsString("records"),
		progressbar.OptionThrottle(100*time.Millisecond),
		progressbar.OptionClearOnFinish(),
	)
	p.bar.Set(p.done)
	go p.setEnd(p.bar, *p.pass, p.gone)
}

// setEnd tells the bar how many records there are.
func (p *progress) setEnd(bar *progressbar.ProgressBar, pass backlog.Report, gone int) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	c, err := p.table.Count(ctx, pass.Started, []time.Duration{pass.MaxAge})
	if err != nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bar == bar {
		bar.ChangeMax(gone + c.Bands[0].Fresh + c.Bands[0].Failed)
	}
}
