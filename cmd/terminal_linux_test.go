package cmd_test

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"backlog/internal/testkit"
)

// openTerminal returns a pseudo-terminal, and what a person in front of it sees.
func openTerminal(t *testing.T) (terminal *os.File, screen *testkit.Buffer) {
	t.Helper()
	_, terminal, screen = openTerminalAndKeys(t)
	return terminal, screen
}

// openTerminalAndKeys returns the same as openTerminal, and the end at which a person types.
func openTerminalAndKeys(t *testing.T) (person, terminal *os.File, screen *testkit.Buffer) {
	t.Helper()
	person, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { person.Close() })
	if err := unix.IoctlSetPointerInt(int(person.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(person.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	terminal, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { terminal.Close() })
	if err := unix.IoctlSetWinsize(int(terminal.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 80}); err != nil {
		t.Fatal(err)
	}
	screen = new(testkit.Buffer)
	go func() {
		b := make([]byte, 4096)
		for {
			n, err := person.Read(b)
			screen.Write(b[:n])
			if err != nil {
				return
			}
		}
	}()
	return person, terminal, screen
}

// On a terminal the log is text, and a pass that takes long shows how far it
// is. The report goes to standard output, terminal or not.
func TestTerminal(t *testing.T) {
	t.Parallel()
	s := newShop(t, map[string]string{
		"schedule.yaml": "handler: {exec: [./handler.sh], concurrency: 1}\nstate: none\ntiers: [{max_age: 1d, every: 1h}]\n",
		"handler.sh":    "#!/bin/sh\nexec sleep 0.2\n",
	})
	s.mustRun("init", "--create-table")
	s.sql("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 12) INSERT INTO BACKLOG (id) SELECT i FROM n")
	terminal, screen := openTerminal(t)
	var out strings.Builder
	c := s.command("once", "--max-age", "1d", "--json")
	c.Stdout, c.Stderr = &out, terminal
	if err := c.Run(); err != nil {
		t.Fatalf("%v\n%s", err, screen)
	}
	for _, want := range []string{
		`1d +[0-9]+% \|█+ *\| \([0-9]+/12, [0-9]+ records/(s|min)\)`,
		` level=INFO msg="pass ended" tier=1d selected=12 succeeded=12 failed=0 `,
	} {
		re := regexp.MustCompile(want)
		if !eventually(func() bool { return re.MatchString(screen.String()) }) {
			t.Errorf("the terminal does not show %s: %q", want, screen)
		}
	}
	// Its end is the number of records from the first moment on, and its speed
	// that of the pass: no handler is faster than five a second.
	for _, m := range regexp.MustCompile(`\([0-9]+/([^,]*), ([0-9]+) records/(s|min)\)`).FindAllStringSubmatch(screen.String(), -1) {
		if n, _ := strconv.Atoi(m[2]); m[1] != "12" || m[3] == "s" && n > 5 {
			t.Errorf("the terminal shows %s", m[0])
		}
	}
	if !strings.HasPrefix(out.String(), `{"tier":"1d",`) || strings.Count(out.String(), "\n") != 1 {
		t.Errorf("standard output is %q", out.String())
	}
}

// What is logged while the bar is shown has a line of its own, also what no
// record is the reason for.
func TestTerminalStop(t *testing.T) {
	t.Parallel()
	s := newShop(t, map[string]string{
		"schedule.yaml": "handler: {exec: [./handler.sh], concurrency: 1}\nstate: none\ntiers: [{max_age: 1d, every: 1h}]\n",
		"handler.sh":    "#!/bin/sh\nexec sleep 0.2\n",
	})
	s.mustRun("init", "--create-table")
	s.sql("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000) INSERT INTO BACKLOG (id) SELECT i FROM n")
	terminal, screen := openTerminal(t)
	c := s.command("once", "--max-age", "1d")
	c.Stderr = terminal
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	if !eventually(func() bool { return strings.Contains(screen.String(), "/1000, ") }) {
		t.Errorf("no bar is shown: %q", screen)
	}
	c.Process.Signal(os.Interrupt)
	if err := c.Wait(); err != nil {
		t.Fatalf("%v\n%s", err, screen)
	}
	re := regexp.MustCompile(`[\r\n]time=[^ ]+ level=INFO msg="stopping: `)
	if !eventually(func() bool { return re.MatchString(screen.String()) }) {
		t.Errorf("no line begins with what it says: %q", screen)
	}
}
