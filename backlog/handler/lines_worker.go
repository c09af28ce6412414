package handler

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"time"

	"backlog/backlog"
)

// A coprocess is one process of a worker, from before its start until it has
// ended. [Lines.mu] guards what the records know of it.
type coprocess struct {
	lines *Lines
	slot  *slot
	ctx   context.Context // done when it is to be ended; the cause is the reason
	end   context.CancelCauseFunc

	inFlight map[string]*task // by attempt
	out      []byte           // requests not yet written
	queued   int              // bytes of all requests so far
	leaving  bool             // it is given nothing more
	deafTo   deafness         // what it has closed; "": nothing
	finished bool             // its standard input ends after out
	answered bool             // something, properly
	patience *time.Timer      // to end by itself
	watch    watch

	wake    chan struct{} // there is something to write, or to finish
	gone    chan struct{} // closed when the process has ended
	process *os.Process
	stdin   *os.File // the end to write to
	stdout  *os.File // the end to read from
	stderr  *os.File // likewise
	written int      // to stdin; for the one who writes, until the process has ended
}

func newCoprocess(l *Lines, s *slot) *coprocess {
	c := &coprocess{lines: l, slot: s, inFlight: make(map[string]*task), wake: make(chan struct{}, 1), gone: make(chan struct{})}
	c.ctx, c.end = context.WithCancelCause(context.Background())
	return c
}

// take gives t to the worker. Lines.mu is held here and in the next four.
func (c *coprocess) take(t *task) {
	if _, twice := c.inFlight[t.attempt]; twice {
		t.done <- answer{err: fmt.Errorf("lines: attempt %s is in flight already; the ids of attempts must differ", t.attempt)}
		return
	}
	c.given(t)
	t.at = c
	c.inFlight[t.attempt] = t
	c.out = append(c.out, t.line...)
	c.queued += len(t.line)
	t.end = c.queued
	c.wakeUp()
}

func (c *coprocess) wakeUp() {
	select {
	case c.wake <- struct{}{}:
	default: // it has not yet looked since the last time
	}
}

// finish closes the worker's standard input once all is written; it is then to
// end by itself.
func (c *coprocess) finish() {
	c.finished = true
	c.wakeUp()
	c.leave(lingering{c.patienceFor()})
}

// leave gives the worker nothing more, and ends it for the reason if it has not
// ended by itself within the grace.
func (c *coprocess) leave(why error) {
	c.leaving = true
	if why == nil { // it has ended
		for _, t := range []*time.Timer{c.patience, c.watch.timer} {
			if t != nil {
				t.Stop()
			}
		}
	} else if c.patience == nil {
		c.patience = time.AfterFunc(c.patienceFor(), func() {
			c.lines.mu.Lock()
			defer c.lines.mu.Unlock()
			c.stop(why)
		})
	}
}

// patienceFor is how long the worker has to end by itself: a moment at least, so
// that one that is just about to end can say how.
func (c *coprocess) patienceFor() time.Duration { return max(c.lines.grace(), moment) }

// stop ends the worker for the reason. It need not read what it has not read.
func (c *coprocess) stop(why error) {
	c.leaving = true
	c.out = nil
	c.end(why)
}

// run starts the process and sees it to its end.
func (c *coprocess) run() {
	defer c.end(nil)
	if err := c.start(); err != nil {
		c.lines.over(c, &loss{why: inOurName(err), unstarted: c.ctx.Err() == nil})
		return
	}
	lost := c.live()
	if log := c.lines.Log; log != nil && !c.is(&c.finished) { // else Close says it
		log(c.process.Pid, lost.note)
	}
	c.lines.over(c, lost)
}

// start starts the process.
func (c *coprocess) start() (err error) {
	e := &c.lines.exec
	c.lines.finding.Lock() // once is enough for those that start together
	p, err := e.program()
	c.lines.finding.Unlock()
	if err != nil {
		return err
	}
	var opened []*os.File
	closeAll := func(files []*os.File) {
		for _, f := range files {
			f.Close()
		}
	}
	for _, polled := range []end{writing, reading, reading} {
		r, w, err := pipe(polled)
		if err != nil {
			closeAll(opened)
			return err
		}
		opened = append(opened, r, w)
	}
	theirs := []*os.File{opened[0], opened[3], opened[5]}
	ours := []*os.File{opened[1], opened[2], opened[4]}
	defer closeAll(theirs)
	process, err := launch(c.ctx, p.path, c.lines.Command, &os.ProcAttr{Env: p.env, Files: theirs, Sys: ownGroup})
	if err != nil {
		closeAll(ours)
		return e.cannotStart(c.ctx, p, err)
	}
	c.stdin, c.stdout, c.stderr = ours[0], ours[1], ours[2]
	c.process = process
	return nil
}

// live gives the process its requests and reads its replies until it has ended.
func (c *coprocess) live() *loss {
	said := &lineLog{}
	if log := c.lines.Log; log != nil {
		said.log = func(line string) { log(c.process.Pid, line) }
	}
	heard := &replies{c: c}
	var copying sync.WaitGroup
	copying.Go(c.feed)
	copying.Go(func() { pump(said, c.stderr) })
	copying.Go(func() {
		pump(heard, c.stdout)
		c.deaf("output")
	})

	grace := c.lines.grace()
	state, cut, err := await(c.ctx, c.process, grace)
	if err == nil && !cut {
		endLeft(c.process.Pid, grace)
	}
	close(c.gone)
	for _, f := range []*os.File{c.stdin, c.stdout, c.stderr} {
		if f.SetDeadline(time.Unix(1, 0)) != nil {
			f.Close() // others may hold the other end for ever
		}
	}
	copying.Wait()
	left, known := unread(c.stdin)
	c.stdin.Close()
	drain(heard, c.stdout)
	drain(said, c.stderr)
	said.flush()
	c.stdout.Close()
	c.stderr.Close()

	if err != nil {
		return &loss{why: err, note: err.Error(), tail: said.String()}
	}
	lost := &loss{how: &exec.ExitError{ProcessState: state}, tail: said.String()}
	ended := inWords(state)
	switch {
	case cut:
		lost.why = context.Cause(c.ctx)
		lost.note = fmt.Sprintf("%s (%s)", noteOf(lost.why), ended)
		return lost
	case known && c.written == left || !known && !c.is(&c.answered):
		lost.unstarted = true
		lost.why = fmt.Errorf("%s ended before it read anything (%s)", c.lines.Command[0], ended)
	default:
		lost.why = fmt.Errorf("the worker ended before it answered (%s)%s", ended, heard.unfinished())
		if lost.well, lost.read = state.Success(), c.written; known {
			lost.read -= left
		}
	}
	lost.note = "the worker has ended: " + ended
	return lost
}

// is reads one of the coprocess's flags.
func (c *coprocess) is(flag *bool) bool {
	c.lines.mu.Lock()
	defer c.lines.mu.Unlock()
	return *flag
}

// deaf notes that the worker has closed its standard input or output. Mostly it
// is about to end, and how it ends says more.
func (c *coprocess) deaf(what deafness) {
	c.lines.mu.Lock()
	defer c.lines.mu.Unlock()
	c.deafTo = what
	c.leave(what)
}

// feed writes the requests until the process has ended: all that have come up
// meanwhile by one call, which is most of the speed.
func (c *coprocess) feed() {
	var batch []byte
	for {
		select {
		case <-c.wake:
		case <-c.gone:
			return
		}
		// Those who have just got a reply are about to hand in their next
		// record. Let them.
		runtime.Gosched()

		c.lines.mu.Lock()
		batch, c.out = c.out, batch[:0]
		finished := c.finished
		c.lines.mu.Unlock()
		if len(batch) > 0 {
			n, err := c.stdin.Write(batch)
			c.written += n
			if err != nil {
				c.deaf("input")
				return
			}
		}
		if finished {
			c.stdin.Close()
			return
		}
	}
}

// A verdict is what a worker has said of one attempt.
type verdict struct {
	attempt string
	err     error
	line    []byte
}

// tell gives the verdicts to those who wait for them. If one is of no attempt
// that the worker has, or wrong says what else it wrote, the worker is ended:
// tell reports false.
func (c *coprocess) tell(verdicts []verdict, wrong *nonsense) bool {
	c.lines.mu.Lock()
	defer c.lines.mu.Unlock()
	for _, v := range verdicts {
		t := c.inFlight[v.attempt]
		if t == nil {
			wrong = &nonsense{"a reply to an attempt that it does not have, or has answered already", append([]byte(nil), v.line...)}
			break
		}
		delete(c.inFlight, v.attempt)
		c.answered = true
		t.at = nil
		if t.keep {
			t.reply = append(t.reply, v.line...)
		}
		t.done <- answer{err: v.err}
	}
	c.spoke()
	if wrong != nil {
		c.stop(wrong)
	}
	c.lines.distribute()
	return wrong == nil
}

var _ backlog.Sampler = (*Lines)(nil)
