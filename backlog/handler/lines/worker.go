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

// A worker is one process, from before its start until it has ended. [Handler.mu] guards the
// fields about records.
type worker struct {
	h   *Handler
	pid int // 0 before its start

	terminateCtx context.Context // done when the process is to be terminated; the cause is the reason
	terminate    context.CancelCauseFunc
	killCtx      context.Context // done when it is to be killed; after terminateCtx
	kill         context.CancelFunc

	inFlight     map[string]*task // by attempt
	queue        []*task          // those in flight whose request is not written yet
	batch        []byte           // of writeQueue, which uses it again
	finished     bool             // standard input is closed after the queue
	answered     bool             // it has sent a valid reply
	silenceTimer *time.Timer      // ends the worker unless it replies; nil: no limit

	wake chan struct{} // gets a value when there is something to write, or to close
}

// newWorker returns a worker whose process is not started yet.
func newWorker(h *Handler) *worker {
	w := &worker{
		h:        h,
		inFlight: make(map[string]*task),
		wake:     make(chan struct{}, 1),
	}
	w.terminateCtx, w.terminate = context.WithCancelCause(context.Background())
	w.killCtx, w.kill = context.WithCancel(context.Background())
	if h.Timeout > 0 {
		w.silenceTimer = time.AfterFunc(h.Timeout, w.timedOut)
	}
	return w
}

// assign gives t to the worker. Handler.mu must be held.
func (w *worker) assign(t *task) {
	if _, twice := w.inFlight[t.attempt]; twice {
		t.done <- fmt.Errorf("lines: attempt %s is in flight already; the ids of attempts must differ", t.attempt)
		return
	}
	if len(w.inFlight) == 0 {
		w.resetSilence()
	}
	t.worker = w
	w.inFlight[t.attempt] = t
	w.queue = append(w.queue, t)
	w.wakeUp()
}

// wakeUp lets writeRequests look at the queue.
func (w *worker) wakeUp() {
	select {
	case w.wake <- struct{}{}:
	default: // it has yet to look since the last wake-up
	}
}

// resetSilence gives the worker Timeout for its next reply.
func (w *worker) resetSilence() {
	if w.silenceTimer != nil {
		w.silenceTimer.Reset(w.h.Timeout)
	}
}

// finish closes the worker's standard input when the queue is written, and terminates the
// worker if it has not ended Grace later. Even without Grace it gets 10 ms, so that it can
// exit with its own status. Handler.mu must be held.
func (w *worker) finish() {
	w.finished = true
	w.wakeUp()
	grace := max(w.h.grace(), 10*time.Millisecond)
	time.AfterFunc(grace, func() {
		w.terminate(fmt.Errorf("the worker had to be ended: it did not end within %v of the end of its standard input", grace))
	})
}

// timedOut ends a worker that has been silent for too long.
func (w *worker) timedOut() {
	w.h.mu.Lock()
	defer w.h.mu.Unlock()
	if len(w.inFlight) > 0 {
		text := fmt.Sprintf("timed out after %v: the worker answered nothing (does it flush its output?)", w.h.Timeout)
		w.terminate(backlog.Worded(text, context.DeadlineExceeded))
	}
}

// run runs the process and reports its end to the handler.
func (w *worker) run() {
	end := w.runProcess()
	w.terminate(nil)
	w.kill()
	w.h.workerEnded(w, end)
}

// runProcess starts the process, writes requests and reads replies until it has ended, and
// returns why it has ended.
func (w *worker) runProcess() *workerEnd {
	stdin, stdinWriter, err := os.Pipe()
	if err != nil {
		return &workerEnd{reason: err, unstarted: true}
	}
	defer stdinWriter.Close()
	started := make(chan struct{})
	processEnded := make(chan struct{})
	stdout := &replyReader{w: w}
	stderr := &stderrLog{log: func(line string) {
		<-started // the log has the pid
		w.log(line)
	}}
	cmd, err := w.h.program().Start(nil, stdin, stdout, stderr)
	stdin.Close()
	if err != nil {
		return &workerEnd{reason: err, unstarted: true}
	}
	w.pid = cmd.Process.Pid
	close(started)
	var writing sync.WaitGroup
	written := 0
	writing.Go(func() { written = w.writeRequests(stdinWriter, processEnded) })

	terminated, err := proc.Wait(w.terminateCtx, w.killCtx.Done(), cmd, w.h.grace())
	if !terminated {
		proc.Terminate(cmd.Process.Pid, nil, w.h.grace(), w.killCtx.Done())
	}
	close(processEnded)
	if stdinWriter.SetWriteDeadline(time.Unix(1, 0)) != nil {
		stdinWriter.Close() // children may hold the reading end, so that a write would never return
	}
	writing.Wait()
	stderr.flush()
	if err != nil {
		return &workerEnd{reason: err}
	}
	end := &workerEnd{stderr: stderr.tail.String(), exit: &exec.ExitError{ProcessState: cmd.ProcessState}, terminated: terminated}
	how := proc.InWords(cmd.ProcessState)
	note := "the worker has ended: " + how
	w.h.mu.Lock()
	answered := w.answered
	finished := w.finished
	w.h.mu.Unlock()
	unread, known := proc.Unread(stdinWriter)
	readNothing := known && unread == written || !known && !answered
	switch {
	case terminated:
		end.reason = context.Cause(w.terminateCtx)
		note = fmt.Sprintf("%v (%s)", end.reason, how)
	case readNothing:
		end.unstarted = true
		end.reason = fmt.Errorf("%s ended before it read anything (%s)", w.h.Command[0], how)
	default:
		end.reason = fmt.Errorf("the worker ended before it answered (%s)%s", how, stdout.unfinished())
	}
	if !finished { // otherwise Close returns it
		w.log(note)
	}
	return end
}

func (w *worker) log(text string) {
	if w.h.Log != nil {
		w.h.Log.Info("worker", "pid", w.pid, "text", text)
	}
}

// batchSize is about how many bytes one call writes. Most of the speed comes from one write
// for all requests that have arrived together.
const batchSize = 64 << 10

// writeRequests writes the queue whenever wakeUp was called, until the process has ended or the
// input is finished. It returns the number of bytes written.
func (w *worker) writeRequests(stdin *os.File, processEnded <-chan struct{}) (written int) {
	for {
		select {
		case <-w.wake:
		case <-processEnded:
			return written
		}
		// Let the calls that have just got a reply hand in their next record.
		runtime.Gosched()

		w.h.mu.Lock()
		queue := w.queue
		finished := w.finished
		w.queue = nil
		w.h.mu.Unlock()
		n, err := w.writeQueue(stdin, queue)
		written += n
		if err != nil {
			return written // the worker's end, or its silence, says more than err
		}
		if finished {
			stdin.Close()
			return written
		}
	}
}

// writeQueue writes the requests in batches of about [batchSize], and stops early if the worker
// is being terminated, which need not read the rest. It returns the number of bytes written.
func (w *worker) writeQueue(stdin *os.File, queue []*task) (written int, err error) {
	for len(queue) > 0 && w.terminateCtx.Err() == nil {
		w.batch = w.batch[:0]
		for len(queue) > 0 && len(w.batch) < batchSize {
			w.batch = append(w.batch, queue[0].line...)
			queue = queue[1:]
		}
		n, err := stdin.Write(w.batch)
		written += n
		if err != nil {
			return written, err
		}
	}
	return written, nil
}

// resolve gives an outcome to the call that waits for it. A reply to an attempt that the
// worker does not have is an error that ends the worker.
func (w *worker) resolve(attempt string, outcome error, line []byte) error {
	w.h.mu.Lock()
	defer w.h.mu.Unlock()
	t := w.inFlight[attempt]
	if t == nil {
		return badOutput("a reply to an attempt that it does not have, or has answered already", line)
	}
	delete(w.inFlight, attempt)
	if !w.answered {
		w.answered = true
		w.h.failedWorkers = 0
	}
	t.worker = nil
	t.reply = beginning(line)
	t.done <- outcome
	w.resetSilence()
	w.h.distribute()
	return nil
}

// A workerEnd says why a worker answers nothing any more. It is the error of its attempts.
type workerEnd struct {
	reason     error           // why the handler has terminated it, or how it ended by itself
	stderr     string          // the end of its standard error
	exit       *exec.ExitError // nil: it was not started
	terminated bool            // by the handler
	unstarted  bool            // it has not read anything
}

func (e *workerEnd) Error() string { return e.reason.Error() }

// forAttempt returns the error of an attempt that the worker had. If the worker was
// terminated and ctx, the attempt's, is done, its cause is the reason: the attempt was given
// up itself, whichever attempt has ended the worker.
func (e *workerEnd) forAttempt(ctx context.Context) error {
	reason := e.reason
	if e.terminated && ctx.Err() != nil {
		reason = context.Cause(ctx)
	}
	causes := []error{reason}
	if e.exit != nil {
		causes = append(causes, e.exit)
	}
	failed := backlog.Worded(proc.WithTail(reason.Error(), e.stderr), causes...)
	if e.unstarted {
		return backlog.Unstarted(failed)
	}
	return failed
}

// badOutput returns the reason to end a worker that has broken the protocol: what it wrote,
// and the beginning of the line.
func badOutput(what string, line []byte) error {
	return fmt.Errorf("the worker wrote %s: %.200q", what, line)
}

// parseReply reads one line: the attempt it answers, and the error that stands for the
// outcome. problem says what is wrong with the line; its text continues "the worker wrote". It
// decodes into a map and not into a struct, which would take a field "Error" for "error".
func parseReply(line []byte) (attempt string, outcome, problem error) {
	var fields map[string]any
	if json.Unmarshal(line, &fields) != nil || fields == nil {
		return "", nil, errors.New("what is not one JSON object")
	}
	var texts [3]string
	for i, name := range []string{"attempt_id", "outcome", "error"} {
		text, isString := fields[name].(string)
		texts[i] = text
		if !isString && fields[name] != nil {
			return "", nil, fmt.Errorf("a reply whose %s is no text", name)
		}
	}
	attempt = texts[0]
	word := texts[1]
	text := proc.Head(texts[2])
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
	case word == "snooze":
		outcome = snooze(fields["snooze"], outcome)
	case word != "error":
		return "", nil, errors.New("a reply whose outcome is none of success, error, reject, skip and snooze")
	case text == "":
		outcome = errors.New("the worker said error, without a text")
	}
	if pauses {
		outcome = backlog.RetryAfter(time.Duration(min(seconds*float64(time.Second), math.MaxInt64/2)), outcome)
	}
	return attempt, outcome, nil
}

// snooze returns the error that stands for a snooze with the value; why may be nil. Without a time
// it is an error of the attempt.
func snooze(value any, why error) error {
	t, err := backlog.ParseSnooze(value)
	if err != nil {
		return fmt.Errorf("the worker said snooze, and its field snooze is to say how long: %v", err)
	}
	return t.Snooze(why)
}

// request returns the line by which a worker is given r: a JSON object and a newline. The
// attempt comes first, so that a worker without a JSON parser can cut it out.
func request(attempt string, r *backlog.Record) ([]byte, error) {
	fields := new(backlog.Record)
	fields.Names, fields.Values = r.HandlerFields()
	fields.Values[0] = attempt
	line, err := fields.AppendColumnsJSON(make([]byte, 0, 512))
	if err != nil {
		return nil, err
	}
	line = append(line[:len(line)-1], `,"record":`...) // in place of the closing brace
	line, err = r.AppendColumnsJSON(line)
	return append(line, "}\n"...), err
}

// maxLine is the longest line that a worker may write, in bytes without its newline.
const maxLine = 1 << 20

// A replyReader is the writer that gets a worker's standard output.
type replyReader struct {
	w       *worker
	rest    []byte // an unfinished line
	ignored bool   // a line was wrong: nothing after it is read
}

// Write implements io.Writer. It does not fail.
func (r *replyReader) Write(p []byte) (int, error) {
	if r.ignored {
		return len(p), nil
	}
	r.rest = append(r.rest, p...)
	unread := r.rest
	for {
		line, after, whole := bytes.Cut(unread, []byte{'\n'})
		var problem error
		if len(line) > maxLine {
			problem = badOutput(fmt.Sprintf("a line of more than %d bytes", maxLine), line)
		} else if whole {
			problem = r.readLine(line)
		}
		if problem != nil {
			r.ignored = true
			r.rest = nil
			r.w.terminate(problem)
			return len(p), nil
		}
		if !whole {
			break
		}
		unread = after
	}
	r.rest = append(r.rest[:0], unread...)
	return len(p), nil
}

// readLine reads one reply.
func (r *replyReader) readLine(line []byte) error {
	attempt, outcome, problem := parseReply(line)
	if problem != nil {
		return badOutput(problem.Error(), line)
	}
	return r.w.resolve(attempt, outcome, line)
}

// unfinished describes what the worker has written after its last whole line, for the end of
// an error's text.
func (r *replyReader) unfinished() string {
	if len(r.rest) == 0 {
		return ""
	}
	return fmt.Sprintf(", its last line has no end: %.200q", r.rest)
}

// A stderrLog is the writer that gets a worker's standard error and logs its lines.
type stderrLog struct {
	tail proc.Tail
	log  func(line string)
	line []byte // the beginning of an unfinished line, a little more than is logged
}

// Write implements io.Writer. It does not fail.
func (s *stderrLog) Write(p []byte) (int, error) {
	s.tail.Write(p)
	for part := range bytes.Lines(p) {
		part, whole := bytes.CutSuffix(part, []byte{'\n'})
		s.line = append(s.line, part[:min(len(part), 2*proc.TailSize-len(s.line))]...)
		if whole {
			s.flush()
		}
	}
	return len(p), nil
}

// flush logs the line, unless it is blank, as valid UTF-8 of bounded length.
func (s *stderrLog) flush() {
	if text := bytes.TrimRight(s.line, " \t\r"); len(text) > 0 {
		s.log(proc.Head(string(text)))
	}
	s.line = s.line[:0]
}

// beginning returns as much of a line as is logged.
func beginning(line []byte) string {
	return string(bytes.TrimSpace(line[:min(len(line), 2*proc.TailSize)]))
}
