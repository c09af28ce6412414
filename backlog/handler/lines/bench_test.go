//go:build unix

package lines_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"backlog/backlog"
	"backlog/backlog/handler/lines"
)

const (
	workerPy = "../../../testdata/workers/worker.py"
	workerSh = "../../../testdata/workers/worker.sh"
)

// goWorker is a worker that does nothing, fast: this program, running
// TestGoWorker.
func goWorker() []string { return []string{os.Args[0], "-test.run=^TestGoWorker$", "--", "work"} }

func TestGoWorker(*testing.T) {
	if flag.Arg(0) != "work" {
		return
	}
	in, out := bufio.NewReaderSize(os.Stdin, 1<<20), bufio.NewWriterSize(os.Stdout, 1<<16)
	for {
		line, err := in.ReadSlice('\n')
		if err != nil {
			os.Exit(0)
		}
		attempt, _, _ := bytes.Cut(bytes.TrimPrefix(line, []byte(`{"attempt_id":"`)), []byte{'"'})
		out.WriteString(`{"attempt_id":"`)
		out.Write(attempt)
		out.WriteString("\",\"outcome\":\"success\"}\n")
		if in.Buffered() == 0 {
			out.Flush()
		}
	}
}

func benchRecord() backlog.Record {
	return backlog.Record{
		Key: backlog.NewKey(int64(4711)), Status: "NEW", Inserted: time.Unix(1_700_000_000, 0),
		Names:  []string{"id", "status", "payload"},
		Values: []any{int64(4711), "NEW", `{"to": "somebody@example.org", "amount": 12.5}`},
		Tier:   "1d",
	}
}

const requestOf = `{"attempt_id":"%","id":4711,"status":"NEW","inserted":"2023-11-14T22:13:20Z","tier":"1d",` +
	`"record":{"id":4711,"status":"NEW","payload":"{\"to\": \"somebody@example.org\", \"amount\": 12.5}"}}` + "\n"

// BenchmarkLines compares the handler, called by as many goroutines as its
// window holds, with a bare loop around the same worker: one goroutine writes
// lines, another reads what comes back, a window of 64 in between. They take
// turns, and "ratio" is the handler's speed as a fraction of the loop's. With
// the worker in Python that is what limits both; the one in Go, which does next
// to nothing, shows what they cost themselves. "json" is a loop that writes real
// records and reads what the replies say; else it sends the same text over and
// over, and counts the lines that come back.
func BenchmarkLines(b *testing.B) {
	for _, tt := range []struct {
		name    string
		command []string
		json    bool
	}{
		{"python", []string{pythonItself(b), workerPy}, false},
		{"go", goWorker(), false},
		{"go/json", goWorker(), true},
	} {
		b.Run(tt.name, func(b *testing.B) {
			l := &lines.Handler{Settings: lines.Settings{Command: tt.command}, Timeout: time.Minute}
			defer l.Close()
			bare := newBareLoop(b, tt.command)
			bare.json = tt.json
			const batch = 10_000
			var bareTook, linesTook time.Duration
			bare.run(b, 100)
			handleAll(b, l, 100)
			for b.Loop() {
				bareTook += bare.run(b, batch)
				linesTook += handleAll(b, l, batch)
			}
			records := float64(b.N * batch)
			b.ReportMetric(records/bareTook.Seconds(), "bare/s")
			b.ReportMetric(records/linesTook.Seconds(), "lines/s")
			b.ReportMetric(bareTook.Seconds()/linesTook.Seconds(), "ratio")
		})
	}
}

// BenchmarkLinesStarts compares the handler with a loop that starts the same Python
// for each record: "ratio" is how many times as fast lines is.
func BenchmarkLinesStarts(b *testing.B) {
	python := pythonItself(b)
	l := &lines.Handler{Settings: lines.Settings{Command: []string{python, workerPy}}, Timeout: time.Minute}
	defer l.Close()
	r := benchRecord()
	input, err := r.ColumnsJSON()
	if err != nil {
		b.Fatal(err)
	}
	start := func() {
		c := exec.Command(python, "-c", `
import json, sys
record = json.loads(sys.stdin.buffer.readline())
if record.get("city") == "Nowhere":
    raise ValueError("there is no such city")
`)
		c.Stdin = bytes.NewReader(input)
		if err := c.Run(); err != nil {
			b.Error(err)
		}
	}
	handleAll(b, l, 100)
	const each, batch = 20, 10_000
	var startsTook, linesTook time.Duration
	for b.Loop() {
		began := time.Now()
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for range each / 4 {
					start()
				}
			})
		}
		wg.Wait()
		startsTook += time.Since(began)
		linesTook += handleAll(b, l, batch)
	}
	startsSpeed, linesSpeed := float64(b.N*each)/startsTook.Seconds(), float64(b.N*batch)/linesTook.Seconds()
	b.ReportMetric(startsSpeed, "starts/s")
	b.ReportMetric(linesSpeed, "lines/s")
	b.ReportMetric(linesSpeed/startsSpeed, "ratio")
}

// pythonItself returns the path of Python, without what may choose one of
// several at each start.
func pythonItself(b *testing.B) string {
	out, err := exec.Command("python3", "-c", "import sys; print(sys.executable)").Output()
	if err != nil {
		b.Skipf("python3: %v; install it", err)
	}
	return strings.TrimSpace(string(out))
}

// handleAll gives the handler n records, 64 at a time.
func handleAll(b *testing.B, l *lines.Handler, n int) time.Duration {
	var next atomic.Int64
	var wg sync.WaitGroup
	start := time.Now()
	for range 64 {
		wg.Go(func() {
			r := benchRecord()
			for {
				i := next.Add(1)
				if i > int64(n) {
					return
				}
				r.AttemptID = "0123456789abcdef-" + strconv.FormatInt(i, 36)
				if err := l.Handle(b.Context(), &r); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	return time.Since(start)
}

// A bareLoop is a coprocess and no more than it takes to keep it busy.
type bareLoop struct {
	in   *bufio.Writer
	out  *bufio.Reader
	json bool // it writes and reads JSON
}

func newBareLoop(b *testing.B, command []string) *bareLoop {
	c := exec.Command(command[0], command[1:]...)
	in, err := c.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := c.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { in.Close(); c.Wait() })
	return &bareLoop{in: bufio.NewWriterSize(in, 1<<16), out: bufio.NewReaderSize(out, 1<<16)}
}

// run sends n requests, writing when the window is full, and counts the
// replies.
func (l *bareLoop) run(b *testing.B, n int) time.Duration {
	window := make(chan struct{}, 64)
	start := time.Now()
	go func() {
		for i := range n {
			select {
			case window <- struct{}{}:
			default:
				l.in.Flush()
				window <- struct{}{}
			}
			l.send("0123456789abcdef-" + strconv.FormatInt(int64(i), 36))
		}
		l.in.Flush()
	}()
	for range n {
		if err := l.receive(); err != nil {
			b.Error(err)
			return 1
		}
		<-window
	}
	return time.Since(start)
}

func (l *bareLoop) send(attempt string) {
	if !l.json {
		before, after, _ := strings.Cut(requestOf, "%")
		l.in.WriteString(before)
		l.in.WriteString(attempt)
		l.in.WriteString(after)
		return
	}
	r := benchRecord()
	line, _ := json.Marshal(struct {
		Attempt  string         `json:"attempt_id"`
		ID       backlog.Key    `json:"id"`
		Status   string         `json:"status"`
		Inserted time.Time      `json:"inserted"`
		Tier     string         `json:"tier"`
		Record   map[string]any `json:"record"`
	}{attempt, r.Key, r.Status, r.Inserted.UTC(), r.Tier, map[string]any{
		r.Names[0]: r.Values[0], r.Names[1]: r.Values[1], r.Names[2]: r.Values[2],
	}})
	l.in.Write(append(line, '\n'))
}

func (l *bareLoop) receive() error {
	line, err := l.out.ReadSlice('\n')
	if err != nil || !l.json {
		return err
	}
	var reply struct {
		Attempt string `json:"attempt_id"`
		Outcome string `json:"outcome"`
	}
	if err = json.Unmarshal(line, &reply); err == nil && reply.Outcome != "success" {
		err = fmt.Errorf("%s: %s", reply.Attempt, reply.Outcome)
	}
	return err
}
