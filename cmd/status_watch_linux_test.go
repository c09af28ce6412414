package cmd_test

import (
	"os"
	"os/exec"
	"reflect"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"backlog/internal/testkit"
)

// A watched status is one that is shown on a terminal.
type watchedStatus struct {
	*testing.T
	cmd              *exec.Cmd
	person, terminal *os.File
	screen           *testkit.Buffer
}

// watchStatus starts `status --watch` on a terminal.
func watchStatus(t *testing.T, s *shop, env ...string) *watchedStatus {
	t.Helper()
	w := &watchedStatus{T: t, cmd: s.command("status", "--watch")}
	w.cmd.Env = append(w.cmd.Environ(), env...)
	w.person, w.terminal, w.screen = openTerminalAndKeys(t)
	w.cmd.Stdin = w.terminal
	w.cmd.Stdout = w.terminal
	w.cmd.Stderr = w.terminal
	if err := w.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.cmd.Process.Kill() })
	return w
}

// sees waits until the screen shows a text after its first bytes.
func (w *watchedStatus) sees(after int, text string) {
	w.Helper()
	if !eventually(func() bool { return strings.Contains(w.screen.String()[after:], text) }) {
		w.Errorf("the screen does not show %q: %q", text, w.screen.String()[after:])
	}
}

func termios(t *testing.T, terminal *os.File) *unix.Termios {
	t.Helper()
	state, err := unix.IoctlGetTermios(int(terminal.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	return state
}

// The status is shown again in place, also after an error and in another size, and the terminal is afterwards as it was,
// whatever ends it.
func TestStatusWatch(t *testing.T) {
	t.Parallel()
	s := newShop(t, map[string]string{"schedule.yaml": "state: none\ntiers: [{max_age: 1d, every: 1h}]\n"})
	s.mustRun("init", "--create-table")
	for name, end := range map[string]func(w *watchedStatus){
		"q":       func(w *watchedStatus) { w.person.WriteString("q") },
		"Ctrl-C":  func(w *watchedStatus) { w.person.WriteString("\x03") },
		"SIGTERM": func(w *watchedStatus) { w.cmd.Process.Signal(syscall.SIGTERM) },
		"SIGHUP":  func(w *watchedStatus) { w.cmd.Process.Signal(syscall.SIGHUP) },
	} {
		w := watchStatus(t, s)
		before := termios(t, w.terminal)
		w.sees(0, "NEXT PASS")
		if reflect.DeepEqual(termios(t, w.terminal), before) {
			t.Errorf("%s: the keys wait for the end of the line", name)
		}
		end(w)
		if err := w.cmd.Wait(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if after := termios(t, w.terminal); !reflect.DeepEqual(after, before) {
			t.Errorf("%s: the terminal is %+v, and was %+v", name, after, before)
		}
		shown := w.screen.String()
		if !strings.HasPrefix(shown, "\x1b[?1049h\x1b[?25l\x1b[?7l") {
			t.Errorf("%s: it begins with %.40q", name, shown)
		}
		w.sees(0, "\x1b[?7h\x1b[?25h\x1b[?1049l")
	}
}

func TestStatusWatchGoesOn(t *testing.T) {
	t.Parallel()
	s := newShop(t, map[string]string{"schedule.yaml": "state: none\ntiers: [{max_age: 1d, every: 1h}]\n"})
	s.mustRun("init", "--create-table")
	s.sql("INSERT INTO BACKLOG (id, status) VALUES (1, 'NEW')")
	w := watchStatus(t, s)
	w.sees(0, "NEW     1")
	at := len(w.screen.String())
	s.sql("INSERT INTO BACKLOG (id, status) VALUES (2, 'NEW')")
	w.sees(at, "NEW     2")
	s.sql("ALTER TABLE BACKLOG RENAME TO away")
	w.sees(at, "backlog: ")
	at = len(w.screen.String())
	w.sees(at, "NEW     2") // as it was
	s.sql("ALTER TABLE away RENAME TO BACKLOG", "DELETE FROM BACKLOG WHERE id = 2")
	w.sees(at, "NEW     1")
	at = len(w.screen.String())
	if err := unix.IoctlSetWinsize(int(w.terminal.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 3, Col: 12}); err != nil {
		t.Fatal(err)
	}
	w.cmd.Process.Signal(syscall.SIGWINCH) // the terminal is not the one that controls it
	w.sees(at, "\x1b[H\x1b[Kq ends it; e\r\n\x1b[K\r\n\x1b[J… ")
	w.person.WriteString("q")
	if err := w.cmd.Wait(); err != nil {
		t.Error(err)
	}
}

// After kill -STOP and fg, it has the terminal as before.
func TestStatusWatchContinues(t *testing.T) {
	t.Parallel()
	s := newShop(t, map[string]string{"schedule.yaml": "state: none\ntiers: [{max_age: 1d, every: 1h}]\n"})
	s.mustRun("init", "--create-table")
	w := watchStatus(t, s)
	before := termios(t, w.terminal)
	w.sees(0, "NEXT PASS")
	w.cmd.Process.Signal(syscall.SIGSTOP)
	var status unix.WaitStatus
	if _, err := unix.Wait4(w.cmd.Process.Pid, &status, unix.WUNTRACED, nil); err != nil || !status.Stopped() {
		t.Fatalf("it does not stop: %v", err)
	}
	if err := unix.IoctlSetTermios(int(w.terminal.Fd()), unix.TCSETS, before); err != nil { // as a shell does
		t.Fatal(err)
	}
	at := len(w.screen.String())
	w.cmd.Process.Signal(syscall.SIGCONT)
	w.sees(at, "\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[H")
	if termios(t, w.terminal).Lflag&unix.ICANON != 0 {
		t.Error("the keys wait for the end of the line")
	}
	w.person.WriteString("q")
	if err := w.cmd.Wait(); err != nil {
		t.Error(err)
	}
	if after := termios(t, w.terminal); !reflect.DeepEqual(after, before) {
		t.Errorf("the terminal is %+v, and was %+v", after, before)
	}
}

// A terminal that knows no escape sequences gets the status once.
func TestStatusWatchDumb(t *testing.T) {
	t.Parallel()
	s := newShop(t, map[string]string{"schedule.yaml": "state: none\ntiers: [{max_age: 1d, every: 1h}]\n"})
	s.mustRun("init", "--create-table")
	w := watchStatus(t, s, "TERM=dumb")
	if err := w.cmd.Wait(); err != nil {
		t.Error(err)
	}
	w.sees(0, "NEXT PASS")
	if shown := w.screen.String(); strings.Contains(shown, "\x1b") {
		t.Errorf("it has escape sequences: %q", shown)
	}
}
