package lines

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"time"

	"backlog/backlog"
	"backlog/backlog/handler/proc"
)

// A worker is one process, from before its start until it has ended.
// [Handler.mu] guards what the records know of it.
type worker struct {
	h   *Handler
	ctx context.Context // done when it is to be ended; the cause is the reason
	end context.CancelCauseFunc

	killed context.Context // done when it is to be ended by force, after ctx
	kill   context.CancelFunc
	pid    int // 0 before its start

	inFlight map[string]*task // by attempt
	queue    []*task          // of those, what is yet to be written
	finished bool             // its standard input ends after the queue
	answered bool             // something, properly
	silence  *time.Timer      // ends it, while records are in flight; nil: never

	wake chan struct{} // there is something to write, or to finish
}

func newWorker(h *Handler) *worker {
	w := &worker{h: h, inFlight: make(map[string]*task), wake: make(chan struct{}, 1)}
	w.ctx, w.end = context.WithCancelCause(context.Background())
	w.killed, w.kill = context.WithCancel(context.Background())
	if h.Timeout > 0 {
		w.silence = time.AfterFunc(h.Timeout, w.late)
	}
	return w
}

// take gives t to the worker. Handler.mu is held here, in wakeUp, listen and finish.
func (w *worker) take(t *task) {
	if _, twice := w.inFlight[t.attempt]; twice {
		t.done <- fmt.Errorf("lines: attempt %s is in flight already; the ids of attempts must differ", t.attempt)
		return
	}
	if len(w.inFlight) == 0 {
		w.listen()
	}
	t.at = w
	w.inFlight[t.attempt] = t
	w.queue = append(w.queue, t)
	w.wakeUp()
}

func (w *worker) wakeUp() {
	select {
	case w.wake <- struct{}{}:
	default: // it has not yet looked since the last time
	}
}

// listen gives the worker its time to answer something.
func (w *worker) listen() {
	if w.silence != nil {
		w.silence.Reset(w.h.Timeout)
	}
}

// finish closes the worker's standard input once all is written; it is then to
// end by itself, for which it has a moment at least, so that it can say how.
func (w *worker) finish() {
	w.finished = true
	w.wakeUp()
	grace := max(w.h.grace(), 10*time.Millisecond)
	time.AfterFunc(grace, func() {
		w.end(fmt.Errorf("the worker had to be ended: it did not end within %v of the end of its standard input", grace))
	})
}

// late ends a worker that has been silent for too long.
func (w *worker) late() {
	w.h.mu.Lock()
	defer w.h.mu.Unlock()
	if len(w.inFlight) > 0 {
		text := fmt.Sprintf("timed out after %v: the worker answered nothing (does it flush its output?)", w.h.Timeout)
		w.end(backlog.Worded(text, context.DeadlineExceeded))
	}
}

// run starts the process and sees it to its end.
func (w *worker) run() {
	lost := w.live()
	w.end(nil)
	w.kill()
	w.h.over(w, lost)
}

// live starts the process, gives it its requests and reads its replies until it
// has ended.
func (w *worker) live() *loss {
	stdin, in, err := os.Pipe()
	if err != nil {
		return &loss{why: err, unstarted: true}
	}
	defer in.Close()
	started, gone := make(chan struct{}), make(chan struct{})
	stdout := &replies{w: w}
	stderr := &messages{log: func(line string) {
		<-started
		w.log(line)
	}}
	cmd, err := w.h.program().Start(nil, stdin, stdout, stderr)
	stdin.Close()
	if err != nil {
		return &loss{why: err, unstarted: true}
	}
	w.pid = cmd.Process.Pid
	close(started)
	var feeding sync.WaitGroup
	written := 0
	feeding.Go(func() { written = w.feed(in, gone) })

	cut, err := proc.Wait(w.ctx, w.killed.Done(), cmd, w.h.grace())
	if !cut {
		proc.End(cmd.Process.Pid, nil, w.h.grace(), w.killed.Done())
	}
	close(gone)
	if in.SetWriteDeadline(time.Unix(1, 0)) != nil {
		in.Close() // others may hold the other end for ever
	}
	feeding.Wait()
	stderr.flush()
	if err != nil {
		return &loss{why: err}
	}
	lost := &loss{tail: stderr.tail.String(), how: &exec.ExitError{ProcessState: cmd.ProcessState}, cut: cut}
	ended := proc.InWords(cmd.ProcessState)
	note := "the worker has ended: " + ended
	w.h.mu.Lock()
	answered, finished := w.answered, w.finished
	w.h.mu.Unlock()
	switch left, known := proc.Unread(in); {
	case cut:
		lost.why = context.Cause(w.ctx)
		note = fmt.Sprintf("%v (%s)", lost.why, ended)
	case known && written == left || !known && !answered:
		lost.unstarted = true
		lost.why = fmt.Errorf("%s ended before it read anything (%s)", w.h.Command[0], ended)
	default:
		lost.why = fmt.Errorf("the worker ended before it answered (%s)%s", ended, stdout.unfinished())
	}
	if !finished { // else Close says it
		w.log(note)
	}
	return lost
}

func (w *worker) log(text string) {
	if w.h.Log != nil {
		w.h.Log.Info("worker", "pid", w.pid, "text", text)
	}
}

// batchSize is about how many bytes one call writes. One write for all requests
// that have come up together is most of the speed.
const batchSize = 64 << 10

// feed writes the requests until the process has ended and returns the number of bytes.
func (w *worker) feed(in *os.File, gone <-chan struct{}) (written int) {
	var batch []byte
	for {
		select {
		case <-w.wake:
		case <-gone:
			return written
		}
		// Those who have just got a reply are about to hand in their next
		// record. Let them.
		runtime.Gosched()

		w.h.mu.Lock()
		queue, finished := w.queue, w.finished
		w.queue = nil
		w.h.mu.Unlock()
		for len(queue) > 0 && w.ctx.Err() == nil { // else it need not read the rest
			for batch = batch[:0]; len(queue) > 0 && len(batch) < batchSize; queue = queue[1:] {
				batch = append(batch, queue[0].line...)
			}
			n, err := in.Write(batch)
			written += n
			if err != nil {
				return written // how it ends, or that it is silent, says more
			}
		}
		if finished {
			in.Close()
			return written
		}
	}
}

// report hands an outcome to the call that waits for it. A reply to an attempt that
// the worker does not have is nonsense.
func (w *worker) report(attempt string, outcome error, line []byte) error {
	w.h.mu.Lock()
	defer w.h.mu.Unlock()
	t := w.inFlight[attempt]
	if t == nil {
		return nonsense("a reply to an attempt that it does not have, or has answered already", line)
	}
	delete(w.inFlight, attempt)
	if !w.answered {
		w.answered, w.h.fails = true, 0
	}
	t.at, t.reply = nil, beginning(line)
	t.done <- outcome
	w.listen()
	w.h.distribute()
	return nil
}

// A loss is why a worker answers nothing more.
type loss struct {
	why       error  // a reason of ours to end it, or how it ended by itself
	tail      string // of its standard error
	how       *exec.ExitError
	cut       bool // it was told to end
	unstarted bool // it has not even begun
}

func (l *loss) Error() string { return l.why.Error() }

// of returns the error of an attempt that was in flight.
func (l *loss) of(ctx context.Context) error {
	why := l.why
	if l.cut && ctx.Err() != nil {
		why = context.Cause(ctx) // for its own sake
	}
	causes := []error{why}
	if l.how != nil {
		causes = append(causes, l.how)
	}
	failed := backlog.Worded(proc.WithTail(why.Error(), l.tail), causes...)
	if l.unstarted {
		return backlog.Unstarted(failed)
	}
	return failed
}

// nonsense returns the reason to end a worker because of what it wrote, the beginning of
// which people get to see.
func nonsense(what string, line []byte) error {
	return fmt.Errorf("the worker wrote %s: %.200q", what, line)
}

// parseReply reads one line: which attempt it is about, and the error that stands for
// its outcome. wrong says what is wrong with the line, as the rest
// of a sentence about the worker that "wrote" it. Names are exact: decoded into a
// struct, "Error" would be taken for "error".
func parseReply(line []byte) (attempt string, outcome, wrong error) {
	var fields map[string]any
	if json.Unmarshal(line, &fields) != nil || fields == nil {
		return "", nil, errors.New("what is not one JSON object")
	}
	var texts [3]string
	for i, name := range []string{"attempt_id", "outcome", "error"} {
		var ok bool
		if texts[i], ok = fields[name].(string); !ok && fields[name] != nil {
			return "", nil, fmt.Errorf("a reply whose %s is no text", name)
		}
	}
	attempt, word, text := texts[0], texts[1], proc.Head(texts[2])
	if text != "" {
		outcome = errors.New(text)
	}
	seconds, pauses := fields["retry_after"].(float64)
	switch {
	case attempt == "":
		return "", nil, errors.New("a reply without attempt_id")
	case !pauses && fields["retry_after"] != nil, seconds < 0:
		return "", nil, errors.New("a reply whose retry_after is no number of seconds")
	case word == "success":
		return attempt, nil, nil
	case word == "reject":
		outcome = backlog.Reject(outcome)
	case word == "skip" && text == "":
		outcome = backlog.Skip
	case word == "skip":
		outcome = backlog.Worded(text, backlog.Skip)
	case word != "error":
		return "", nil, errors.New("a reply whose outcome is none of success, error, reject and skip")
	case text == "":
		outcome = errors.New("the worker said error, without a text")
	}
	if pauses {
		outcome = backlog.RetryAfter(time.Duration(min(seconds*float64(time.Second), math.MaxInt64/2)), outcome)
	}
	return attempt, outcome, nil
}

// request returns the line by which a worker is given r: a JSON object and a newline.
// The attempt comes first, so that a worker that has no JSON parser can cut it out.
func request(attempt string, r *backlog.Record) ([]byte, error) {
	told := new(backlog.Record)
	told.Names, told.Values = r.HandlerFields()
	told.Values[0] = attempt
	b, err := told.AppendColumnsJSON(make([]byte, 0, 512))
	if err != nil {
		return nil, err
	}
	b = append(b[:len(b)-1], `,"record":`...) // in place of the brace
	b, err = r.AppendColumnsJSON(b)
	return append(b, "}\n"...), err
}

// maxLine is the longest line that a worker may write, without its end.
const maxLine = 1 << 20

// replies is a worker's standard output.
type replies struct {
	w       *worker
	rest    []byte // an unfinished line
	ignored bool   // what it writes means nothing any more
}

// Write implements io.Writer. It does not fail.
func (r *replies) Write(p []byte) (int, error) {
	if r.ignored {
		return len(p), nil
	}
	r.rest = append(r.rest, p...)
	unread, whole := r.rest, true
	for whole {
		var line, after []byte
		var wrong error
		if line, after, whole = bytes.Cut(unread, []byte{'\n'}); len(line) > maxLine {
			wrong = nonsense(fmt.Sprintf("a line of more than %d bytes", maxLine), line)
		} else if whole {
			wrong = r.read(line)
			unread = after
		}
		if wrong != nil {
			r.ignored, r.rest = true, nil
			r.w.end(wrong)
			return len(p), nil
		}
	}
	r.rest = append(r.rest[:0], unread...)
	return len(p), nil
}

func (r *replies) read(line []byte) error {
	attempt, outcome, wrong := parseReply(line)
	if wrong != nil {
		return nonsense(wrong.Error(), line)
	}
	return r.w.report(attempt, outcome, line)
}

// unfinished says what the worker has written behind its last whole line.
func (r *replies) unfinished() string {
	if len(r.rest) == 0 {
		return ""
	}
	return fmt.Sprintf(", its last line has no end: %.200q", r.rest)
}

// messages is a worker's standard error.
type messages struct {
	tail proc.Tail
	log  func(line string)
	line []byte // the beginning of one, a little more than is logged
}

// Write implements io.Writer. It does not fail.
func (m *messages) Write(p []byte) (int, error) {
	m.tail.Write(p)
	for part := range bytes.Lines(p) {
		part, whole := bytes.CutSuffix(part, []byte{'\n'})
		m.line = append(m.line, part[:min(len(part), 2*proc.TailSize-len(m.line))]...)
		if whole {
			m.flush()
		}
	}
	return len(p), nil
}

// flush logs the line, unless it is blank, as valid UTF-8 of bounded length.
func (m *messages) flush() {
	if text := bytes.TrimRight(m.line, " \t\r"); len(text) > 0 {
		m.log(proc.Head(string(text)))
	}
	m.line = m.line[:0]
}

// beginning returns as much of a line as can be in the log.
func beginning(line []byte) string {
	return string(bytes.TrimSpace(line[:min(len(line), 2*proc.TailSize)]))
}
