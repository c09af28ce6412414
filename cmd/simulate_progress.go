package cmd

import (
	"fmt"
	"io"
	"math"
	"time"

	"github.com/schollz/progressbar/v3"
)

const (
	// longSimulation is how long a simulation runs before it is worth a bar.
	longSimulation = time.Second / 2
	// steps is into how many of them a bar divides what is to be done.
	steps = 1000
)

// A gauge shows on a terminal how far a simulation is, once that takes long. To
// anything but a terminal it shows nothing. Nil is one that never does.
type gauge struct {
	*screen // its mutex guards the bar
}

// newGauge returns a gauge on w.
func newGauge(w io.Writer) *gauge {
	s, ok := w.(*screen)
	if !ok {
		return nil
	}
	return &gauge{s}
}

// begin starts to measure what has so many steps, -1 if that is not known, in
// place of what was measured before.
func (u *gauge) begin(name string, length int64, more ...progressbar.Option) {
	u.end()
	u.mu.Lock()
	defer u.mu.Unlock()
	bar := progressbar.NewOptions64(length, append(more,
		progressbar.OptionSetWriter(u.w),
		progressbar.OptionSetDescription(name),
		progressbar.OptionThrottle(math.MaxInt64), // not yet drawn
		progressbar.OptionSetSpinnerChangeInterval(0),
		progressbar.OptionSetElapsedTime(true),
		progressbar.OptionClearOnFinish(),
	)...)
	bar.Reset() // sets the clock
	u.bar = bar
	time.AfterFunc(longSimulation, func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		if u.bar == bar {
			progressbar.OptionThrottle(redraw)(bar)
			bar.RenderBlank() // what is under way may be long in telling how far it is
		}
	})
}

// show says that so many steps are done.
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

// reading returns what is to be called with each row that is read.
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

// simulating returns what the simulation of the i-th of the candidates, from 0,
// reports its progress to; nil: nobody wants to know.
func (u *gauge) simulating(list []candidate, i int) func(done, of int) {
	if u == nil {
		return nil
	}
	name := shown(list[i].name)
	if r := []rune(name); len(r) > 30 { // a line is all there is
		name = string(r[:29]) + "…"
	}
	if len(list) > 1 {
		name += fmt.Sprintf(" (%d of %d)", i+1, len(list))
	}
	if i == 0 {
		u.begin(name, int64(steps*len(list)))
	}
	return func(done, of int) {
		// The end is for what comes after.
		u.show(name, int64(steps*i)+min(steps-1, steps*int64(done)/int64(of)))
	}
}
