package handler

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"backlog/backlog"
)

// A program is what all runs of it share.
type program struct {
	path string
	env  []string // without the variables that differ from record to record
	null *os.File // standard output: costs neither a pipe nor a goroutine
}

// variables are those that differ from record to record. The last two are for
// dead records.
var variables = [...]string{
	"BACKLOG_ID", "BACKLOG_STATUS", "BACKLOG_INSERTED", "BACKLOG_ATTEMPT_ID", "BACKLOG_TIER",
	"BACKLOG_REASON", "BACKLOG_ERROR",
}

func newProgram(path string) (*program, error) {
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		return nil, err
	}
	env := slices.DeleteFunc(os.Environ(), func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		return slices.Contains(variables[:], name)
	})
	return &program{path: path, env: env, null: null}, nil
}

// environ returns the environment for r.
func (p *program) environ(r *backlog.Record) ([]string, error) {
	inserted := ""
	if !r.Inserted.IsZero() {
		inserted = r.Inserted.UTC().Format(time.RFC3339Nano)
	}
	values := []string{r.Key.String(), r.Status, inserted, r.AttemptID, r.Tier}
	if r.Reason != "" {
		values = append(values, r.Reason, head(r.Error))
	}

	env := slices.Grow(slices.Clip(p.env), len(values)) // a copy
	for i, v := range values {
		if strings.IndexByte(v, 0) >= 0 {
			return nil, fmt.Errorf("%s cannot be %.100q: the environment of a program holds no NUL bytes", variables[i], v)
		}
		env = append(env, variables[i]+"="+v)
	}
	return env, nil
}

const (
	// pipeHolds is what an empty pipe takes without a reader, on any system.
	pipeHolds = 4 << 10

	// moment is how long nobody reads a program's standard error. One that
	// is done by then costs no goroutine and wakes nobody but the one who
	// waits for its end; one that fills the pipe meanwhile has to wait.
	moment = 10 * time.Millisecond
)

// An end is one of the two of a pipe, by its index in what pipe(2) returns.
type end int

const (
	neither end = iota - 1
	reading
	writing
)

// A call is one run of a program.
type call struct {
	process *os.Process
	stdin   *os.File // the end to write to
	stderr  *os.File // the end to read from
	tail    tail     // of stderr; complete after wait

	reader  *time.Timer    // starts to read stderr
	copying sync.WaitGroup // the reader, and who feeds a large input
}

// start starts the program and feeds it the input. The caller must then call
// wait.
func (p *program) start(ctx context.Context, args, env []string, input []byte) (*call, error) {
	small := len(input) <= pipeHolds
	polled := neither // writing cannot block
	if !small {
		polled = writing
	}
	stdin, toStdin, err := pipe(polled)
	if err != nil {
		return nil, err
	}
	defer stdin.Close()
	fromStderr, stderr, err := pipe(reading)
	if err != nil {
		toStdin.Close()
		return nil, err
	}
	defer stderr.Close()

	process, err := launch(ctx, p.path, args, &os.ProcAttr{
		Env:   env,
		Files: []*os.File{stdin, p.null, stderr},
		Sys:   ownGroup,
	})
	if err != nil {
		toStdin.Close()
		fromStderr.Close()
		return nil, err
	}
	c := &call{process: process, stdin: toStdin, stderr: fromStderr}
	c.copying.Add(1)
	c.reader = time.AfterFunc(moment, func() {
		defer c.copying.Done()
		c.tail.readFrom(c.stderr)
	})
	if small {
		c.feed(input)
	} else {
		c.copying.Go(func() { c.feed(input) })
	}
	return c, nil
}

// feed writes the input. That the program does not want it is no error.
func (c *call) feed(input []byte) {
	c.stdin.Write(input)
	c.stdin.Close()
}

// launch is [os.StartProcess], but patient with a program that is busy. A
// script just written by this process is, for a moment: whatever another
// goroutine forks meanwhile inherits the descriptor it was written through, and
// has it until it executes a program of its own (https://go.dev/issue/22315).
func launch(ctx context.Context, path string, args []string, attr *os.ProcAttr) (*os.Process, error) {
	for pause := time.Millisecond; ; pause *= 2 {
		process, err := os.StartProcess(path, args, attr)
		if !errors.Is(err, errFileBusy) || pause > 100*time.Millisecond {
			return process, err
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(pause):
		}
	}
}

// wait waits for the program to end and reaps it, as await does.
func (c *call) wait(ctx context.Context, grace time.Duration) (state *os.ProcessState, cut bool, err error) {
	state, cut, err = await(ctx, c.process, grace)
	c.close()
	return state, cut, err
}

// await waits for the process to end and reaps it. When ctx is done first, it
// ends the process's whole group; cut reports that.
func await(ctx context.Context, p *os.Process, grace time.Duration) (state *os.ProcessState, cut bool, err error) {
	pid := p.Pid
	exited := make(chan struct{})
	ending := make(chan time.Time, 1)
	stop := context.AfterFunc(ctx, func() { ending <- endGroup(pid, exited, grace) })

	var over time.Time
	state, err = reap(p, func() {
		close(exited)
		if !stop() {
			over = <-ending
		}
	})
	if cut = !over.IsZero(); cut {
		endRest(pid, over)
	}
	return state, cut, err
}

// close closes the pipes of a program that has ended, with its last words
// read. It waits for nobody else: children that were left behind may hold the
// other ends for ever.
func (c *call) close() {
	c.stdin.Close()
	if c.reader.Stop() {
		c.copying.Done()
	} else if c.stderr.SetReadDeadline(time.Unix(1, 0)) != nil {
		c.stderr.Close()
	}
	c.copying.Wait()
	drain(&c.tail, c.stderr)
	c.stderr.Close()
}

// A sink takes what a program writes. Space returns where to read to, never
// nothing; wrote is then told how much was read.
type sink interface {
	space() []byte
	wrote(n int)
}

// pump reads r into s until r ends or fails, by its read deadline for example.
func pump(s sink, r io.Reader) {
	for {
		n, err := r.Read(s.space())
		s.wrote(max(n, 0))
		if err != nil {
			return
		}
	}
}

// endGroup tells the group of process pid to end, and kills it if the process
// has not exited within grace. It returns when the process has exited or the
// group is killed, with the time at which grace is over: the zero Time if the
// process had exited before it was told.
func endGroup(pid int, exited <-chan struct{}, grace time.Duration) time.Time {
	select {
	case <-exited:
		return time.Time{}
	default:
	}
	over := time.Now().Add(grace)
	terminateGroup(pid)
	select {
	case <-exited:
	case <-time.After(grace):
		killGroup(pid)
	}
	return over
}

// endRest waits for the last member of the group of the reaped process pid to
// go, and kills those that are left when grace is over: a shell ends as soon
// as it is told to, the program that it runs may need its time.
//
// A group keeps its number from being used again for as long as it has a
// member. A stranger could be hit only if the last one went and the number
// came round, as a group's, within one turn of the loop.
func endRest(pid int, over time.Time) {
	for groupExists(pid) {
		if !time.Now().Before(over) {
			killGroup(pid)
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// endLeft ends what is left of the group of the process pid, which has ended by
// itself and is reaped.
func endLeft(pid int, grace time.Duration) {
	if groupExists(pid) {
		terminateGroup(pid)
		endRest(pid, time.Now().Add(grace))
	}
}
