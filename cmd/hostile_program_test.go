package cmd_test

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"pgregory.net/rapid"

	"backlog/internal/testkit"
)

// A hostileProgram is the program on a table of a real database.
type hostileProgram struct {
	*rapid.T
	kind     *hostileDatabase
	draw     *hostileDraw
	receiver *receiver
	dir      string
	db       *sql.DB
	url      string
	output   string // of the last command
}

// hostileOn runs draws against the program on a database.
func hostileOn(t *testing.T, kind *hostileDatabase) {
	receiver := newReceiver()
	t.Cleanup(receiver.server.Close)
	var db *sql.DB
	var url string
	if kind.name != "sqlite" {
		db, url = kind.connect(t, "")
	}
	rapid.Check(t, func(rt *rapid.T) {
		dir, err := os.MkdirTemp(t.TempDir(), "")
		if err != nil {
			rt.Fatal(err)
		}
		defer os.RemoveAll(dir)
		d := drawHostile(rt, kind)
		p := &hostileProgram{T: rt, kind: kind, draw: d, receiver: receiver, dir: dir, db: db, url: url}
		if db == nil {
			p.db, p.url = kind.connect(t, dir)
			defer p.db.Close()
		}
		w := &hostileWorld{T: rt, draw: d, receiver: receiver, side: p}
		w.run()
	})
}

func (p *hostileProgram) setup(now time.Time) {
	p.Helper()
	if err := p.kind.clear(p.db); err != nil {
		p.Fatal(err)
	}
	p.exec(p.kind.ddl(p.draw)...)
	for row := range p.draw.Rows {
		p.add(row, now)
	}
	text := p.draw.config(p.url, p.receiver.server.URL, "1s")
	if err := os.WriteFile(filepath.Join(p.dir, "schedule.yaml"), []byte(text), 0o600); err != nil {
		p.Fatal(err)
	}
	if status, _ := p.do("init"); status != 0 {
		p.Fatalf("%v\n%s", p.draw, p.output)
	}
}

func (p *hostileProgram) exec(texts ...string) {
	p.Helper()
	for _, text := range texts {
		if _, err := p.db.Exec(text); err != nil {
			p.Fatalf("%s: %v\n%v", text, err, p.draw)
		}
	}
}

func (p *hostileProgram) read() []hostileState {
	p.Helper()
	count := "0"
	switch p.draw.Policy {
	case "list", "fibonacci":
		count = "coalesce(failures, 0)"
	case "linear":
		count = "coalesce(attempt_count, 0)"
	}
	rows, err := p.db.Query("SELECT row_no, status, " + count + ", tries, coalesce(problem, ''), payload FROM job WHERE row_no < 500")
	if err != nil {
		p.Fatal(err)
	}
	defer rows.Close()
	list := make([]hostileState, len(p.draw.Rows))
	for rows.Next() {
		var no int
		var s hostileState
		if err := rows.Scan(&no, &s.Status, &s.Failures, &s.Tries, &s.Problem, &s.Payload); err != nil {
			p.Fatal(err)
		}
		s.Problem = answerIn(s.Problem)
		list[no] = s
	}
	if err := rows.Err(); err != nil {
		p.Fatal(err)
	}
	return list
}

func (p *hostileProgram) add(row int, now time.Time) {
	p.Helper()
	p.exec(p.kind.insert(p.draw, row, now)...)
}

func (p *hostileProgram) hold(row int) error {
	_, err := p.db.Exec(fmt.Sprintf("UPDATE job SET status = 'HOLD' WHERE row_no = %d", row))
	return err
}

func (p *hostileProgram) fill(row int) error {
	_, err := p.db.Exec(fmt.Sprintf("UPDATE job SET filled = 'yes' WHERE row_no = %d", row))
	return err
}

func (p *hostileProgram) said() string { return p.output }

// command returns the program, which ends with ctx.
func (p *hostileProgram) command(ctx context.Context, args ...string) *exec.Cmd {
	c := exec.CommandContext(ctx, released, args...)
	c.Dir = p.dir
	c.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + p.dir, "XDG_STATE_HOME=" + p.dir, "TZ=UTC"}
	return c
}

// do runs the program to its end.
func (p *hostileProgram) do(args ...string) (status int, out string) {
	p.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	c := p.command(ctx, args...)
	var o, l bytes.Buffer
	c.Stdout = &o
	c.Stderr = &l
	err := c.Run()
	p.output = fmt.Sprintf("$ backlog %s\n%s%s", strings.Join(args, " "), o.String(), l.String())
	if c.ProcessState == nil || ctx.Err() != nil {
		p.Fatalf("%v: %s\n%v", err, p.output, p.draw)
	}
	return c.ProcessState.ExitCode(), o.String()
}

// counted runs the program to its end and returns the numbers that it prints.
func (p *hostileProgram) counted(args ...string) (status int, counts map[string]int) {
	p.Helper()
	status, out := p.do(args...)
	var all map[string]any
	if err := json.Unmarshal([]byte(out), &all); err != nil {
		p.Fatalf("%v: %s\n%v", err, p.output, p.draw)
	}
	counts = make(map[string]int)
	for name, v := range all {
		if n, ok := v.(float64); ok {
			counts[name] = int(n)
		}
	}
	return status, counts
}

func hostilePassArgs(age string, now time.Time) []string {
	return []string{"once", "--max-age", age, "--json", "--wait", "30s", "--now", now.Format(time.RFC3339)}
}

func (p *hostileProgram) pass(age string, now time.Time) (status int, counts map[string]int) {
	p.Helper()
	return p.counted(hostilePassArgs(age, now)...)
}

func (p *hostileProgram) retry(now time.Time) (status int, counts map[string]int) {
	p.Helper()
	return p.counted("retry", "--all", "--yes", "--json", "--now", now.Format(time.RFC3339))
}

func (p *hostileProgram) discard(state string, now time.Time) (status int, counts map[string]int) {
	p.Helper()
	return p.counted("discard", "--state", state, "--yes", "--json", "--now", now.Format(time.RFC3339))
}

// A hostileProcess is the program at work beside the test.
type hostileProcess struct {
	cmd  *exec.Cmd
	log  *testkit.Buffer
	gone chan struct{}
}

func (p *hostileProgram) start(args ...string) *hostileProcess {
	p.Helper()
	x := &hostileProcess{p.command(context.Background(), args...), new(testkit.Buffer), make(chan struct{})}
	x.cmd.Stdout = x.log
	x.cmd.Stderr = x.log
	if err := x.cmd.Start(); err != nil {
		p.Fatal(err)
	}
	go func() {
		x.cmd.Wait()
		close(x.gone)
	}()
	return x
}

// end waits for the end of the processes.
func (p *hostileProgram) end(list ...*hostileProcess) {
	p.Helper()
	p.output = ""
	late := time.After(patience)
	for _, x := range list {
		ended := false
		select {
		case <-x.gone:
			ended = true
		case <-late:
			x.cmd.Process.Kill()
			<-x.gone
		}
		p.output += fmt.Sprintf("$ backlog %s\n%s", strings.Join(x.cmd.Args[1:], " "), x.log)
		if !ended {
			p.Fatalf("the program does not end: %s\n%v", p.output, p.draw)
		}
	}
}

func (p *hostileProgram) killed(now time.Time, n int) {
	p.Helper()
	started := make(chan *hostileProcess, 1)
	p.receiver.next(n, func(int) bool {
		x := <-started
		x.cmd.Process.Kill()
		<-x.gone
		return false
	})
	x := p.start(hostilePassArgs("7d", now)...)
	started <- x
	p.end(x)
	p.receiver.awaitCalls(p.T)
}

func (p *hostileProgram) two(now time.Time) {
	p.Helper()
	list := []*hostileProcess{p.start(hostilePassArgs("7d", now)...), p.start(hostilePassArgs("7d", now)...)}
	p.end(list...)
	for _, x := range list {
		if status := x.cmd.ProcessState.ExitCode(); status != 0 && status != 1 {
			p.Fatalf("exit status %d: %s\n%v", status, p.output, p.draw)
		}
	}
}

// hasPassed reports whether a process has logged the end of so many passes.
func (x *hostileProcess) hasPassed(n int) func() bool {
	return func() bool { return strings.Count(x.log.String(), `"msg":"pass ended"`) >= n }
}

func (p *hostileProgram) daemon(now time.Time) time.Time {
	p.Helper()
	time.Sleep(time.Until(now.Add(time.Second))) // what was done before lies in the past
	x := p.start("run")
	reloaded := func() bool { return strings.Contains(x.log.String(), `"msg":"configuration reloaded"`) }
	ok := eventuallyWithin(patience/2, x.hasPassed(2))
	x.cmd.Process.Signal(syscall.SIGHUP)
	ok = ok && eventuallyWithin(patience/2, reloaded)
	passes := strings.Count(x.log.String(), `"msg":"pass ended"`)
	ok = ok && eventuallyWithin(patience/2, x.hasPassed(passes+1))
	x.cmd.Process.Signal(syscall.SIGTERM)
	p.end(x)
	if status := x.cmd.ProcessState.ExitCode(); !ok || status != 0 {
		p.Fatalf("a daemon has not made three passes and been reloaded, exit status %d: %s\n%v", status, p.output, p.draw)
	}
	return time.Now().UTC().Truncate(time.Second)
}

// takeOver starts two daemons and kills the one that works, at its n-th call or, if there
// are fewer, after its first passes.
func (p *hostileProgram) takeOver(now time.Time, n int) time.Time {
	p.Helper()
	time.Sleep(time.Until(now.Add(time.Second)))
	list := make(chan []*hostileProcess, 1)
	leads := func(x *hostileProcess) bool { return strings.Contains(x.log.String(), `"msg":"leading"`) }
	p.receiver.next(n, func(int) bool {
		both := <-list
		list <- both
		leader := both[0]
		if leads(both[1]) {
			leader = both[1]
		}
		leader.cmd.Process.Kill()
		<-leader.gone
		return false
	})
	both := []*hostileProcess{p.start("run"), p.start("run")}
	list <- both
	gone := func(x *hostileProcess) bool {
		select {
		case <-x.gone:
			return true
		default:
			return false
		}
	}
	isSettled := func() bool {
		return slices.ContainsFunc(both, gone) || slices.ContainsFunc(both, func(x *hostileProcess) bool { return x.hasPassed(3)() })
	}
	ok := eventuallyWithin(patience/2, isSettled)
	p.receiver.disarm()
	next := both[0]
	other := both[1]
	if gone(both[0]) || !gone(both[1]) && leads(both[0]) {
		next = both[1]
		other = both[0]
	}
	other.cmd.Process.Kill()
	ok = ok && eventuallyWithin(patience/2, next.hasPassed(2))
	next.cmd.Process.Signal(syscall.SIGTERM)
	p.end(both...)
	if !ok {
		p.Fatalf("the second daemon has not taken over: %s\n%v", p.output, p.draw)
	}
	return time.Now().UTC().Truncate(time.Second)
}
