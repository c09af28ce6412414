package cmd_test

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// needStrace skips the test where programs cannot be traced.
func needStrace(t *testing.T) {
	t.Helper()
	text, err := exec.Command("strace", "-f", "-o", os.DevNull, "-e", "trace=none", "true").CombinedOutput()
	if err != nil && os.Getenv("CI") != "" {
		t.Fatalf("strace cannot trace: %v\n%s", err, text)
	} else if err != nil {
		t.Skipf("there is no strace, or it may not trace here: %v\n%s", err, text)
	}
}

// straced makes the command one that strace runs. Its calls of the names come into the file at the
// path, with all of what they write. options are more of strace's.
func straced(c *exec.Cmd, path, names string, options ...string) {
	args := []string{"strace", "-f", "-ttt", "-y", "-xx", "-s", "4194304", "-e", "signal=none", "-o", path, "-e", "trace=" + names}
	c.Args = slices.Concat(args, options, []string{c.Path}, c.Args[1:])
	c.Path, c.Err = exec.LookPath("strace")
}

// A systemCall is a call of the operating system that a trace has.
type systemCall struct {
	name     string
	args     []string // as strace prints them
	at       time.Time
	result   int64
	failed   bool
	returned bool // false: the process has ended before
	injected bool // it was tampered with
}

// A traceStep is the beginning or the end of a system call. A thread may make a call while another
// one's goes on.
type traceStep struct {
	*systemCall
	ends bool
	at   time.Time
}

var (
	callBegins  = regexp.MustCompile(`^(\d+) +(\d+)\.(\d{6}) (\w+)\((.*)$`)
	callResumes = regexp.MustCompile(`^(\d+) +(\d+)\.(\d{6}) <\.\.\. (\w+) resumed>(.*)$`)
	callReturns = regexp.MustCompile(`^(.*?)\) += (-?\d+|\?)(.*)$`)
)

// readTrace returns the steps of the trace that [straced] has written.
func readTrace(path string) ([]traceStep, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var steps []traceStep
	unfinished := make(map[string]*systemCall) // by thread
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		if m := callResumes.FindStringSubmatch(line); m != nil {
			c := unfinished[m[1]]
			if c == nil || c.name != m[4] {
				return nil, fmt.Errorf("%s: a call is resumed that has not begun: %.200s", path, line)
			}
			delete(unfinished, m[1])
			c.end(m[5])
			steps = append(steps, traceStep{c, true, traceTime(m[2], m[3])})
			continue
		}
		m := callBegins.FindStringSubmatch(line)
		if m == nil {
			continue // a signal, or the end of a thread
		}
		c := &systemCall{name: m[4], at: traceTime(m[2], m[3])}
		steps = append(steps, traceStep{c, false, c.at})
		args, cut := strings.CutSuffix(m[5], " <unfinished ...>")
		if cut {
			c.args = strings.Split(args, ", ")
			unfinished[m[1]] = c
			continue
		}
		ends := callReturns.FindStringSubmatch(args)
		if ends == nil {
			return nil, fmt.Errorf("%s: not a line of strace: %.200s", path, line)
		}
		c.args = strings.Split(ends[1], ", ")
		c.end(args)
		steps = append(steps, traceStep{c, true, c.at})
	}
	return steps, nil
}

func traceTime(seconds, micros string) time.Time {
	s, _ := strconv.ParseInt(seconds, 10, 64)
	us, _ := strconv.ParseInt(micros, 10, 64)
	return time.Unix(s, us*1000)
}

// end notes how the call has returned, by the end of its line.
func (c *systemCall) end(text string) {
	m := callReturns.FindStringSubmatch(text)
	if m == nil || m[2] == "?" {
		return
	}
	c.result, _ = strconv.ParseInt(m[2], 10, 64)
	c.returned = true
	c.failed = c.result < 0
	c.injected = strings.Contains(m[3], "(INJECTED)")
}

// fd returns the file descriptor of an argument, and the path that strace knows of it.
func (c *systemCall) fd(i int) (fd int, path string) {
	number, rest, _ := strings.Cut(c.args[i], "<")
	fd, _ = strconv.Atoi(number)
	return fd, unhex(strings.TrimSuffix(rest, ">"))
}

// number returns an argument that is a number.
func (c *systemCall) number(i int) int64 {
	n, err := strconv.ParseInt(c.args[i], 0, 64)
	if err != nil {
		panic(fmt.Sprintf("%s: argument %d is no number: %q", c.name, i, c.args[i]))
	}
	return n
}

// text returns an argument that is a text.
func (c *systemCall) text(i int) string { return unhex(strings.Trim(c.args[i], `"`)) }

// unhex returns what strace writes as \x61\x62.
func unhex(text string) string {
	b, err := hex.DecodeString(strings.ReplaceAll(text, `\x`, ""))
	if err != nil {
		return text
	}
	return string(b)
}

// String returns the call for people, in a line.
func (c *systemCall) String() string {
	args := slices.Clone(c.args)
	for i, a := range args {
		switch quoted := strings.HasPrefix(a, `"`); {
		case quoted && (c.name == "write" || c.name == "pwrite64"):
			args[i] = fmt.Sprintf("%d bytes", len(c.text(i)))
		case quoted:
			args[i] = c.text(i)
		default:
			number, path, isFile := strings.Cut(strings.TrimSuffix(a, ">"), "<")
			if isFile {
				args[i] = cmp.Or(unhex(path), number)
			}
		}
	}
	result := "?"
	if c.returned {
		result = strconv.FormatInt(c.result, 10)
	}
	return c.name + "(" + strings.Join(args, ", ") + ") = " + result
}
