package cmd_test

import (
	"bytes"
	"os"
	"regexp"
	"strings"
	"testing"
)

// A simulation that takes long shows on a terminal how far it is and of whom.
// Stopped, it takes the bar away and prints what it has, at once.
func TestSimulateShowsProgress(t *testing.T) {
	t.Parallel()
	s := newShop(t, map[string]string{"schedule.yaml": "tiers: [{max_age: 1d, every: 1m}]\n"})
	terminal, screen := openTerminal(t)
	var out bytes.Buffer
	// More than anybody waits for.
	c := s.command("simulate", "--arrivals", "400/h", "--for", "7d", "--success", "0.1%", "--compare", "none,progressive,fibonacci")
	c.Stdout, c.Stderr = &out, terminal
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	re := regexp.MustCompile(`progressive \(2 of 3\) +[0-9]+% \|█+ *\| +\[[0-9ms]+:[0-9hms]+\]`)
	if !eventually(func() bool { return re.MatchString(screen.String()) }) {
		t.Errorf("no bar is shown: %q", screen)
	}
	c.Process.Signal(os.Interrupt)
	if err := c.Wait(); c.ProcessState.ExitCode() != 1 {
		t.Errorf("%v, want exit status 1", err)
	}
	gone := regexp.MustCompile(`\r +\r(backlog: )?stopped: the figures are incomplete\r\n$`)
	if !eventually(func() bool { return gone.MatchString(screen.String()) }) {
		t.Errorf("the bar is not gone: %q", screen.String()[max(0, len(screen.String())-300):])
	}
	if !strings.Contains(out.String(), "\nprogressive ") || strings.Contains(out.String(), "|") {
		t.Errorf("standard output is %q", out.String())
	}
}

// What is over at once shows nothing, and nothing is shown to anything but a
// terminal.
func TestSimulateShowsNoProgress(t *testing.T) {
	t.Parallel()
	s := newShop(t, map[string]string{"schedule.yaml": "tiers: [{max_age: 1d, every: 1h}]\n"})
	terminal, screen := openTerminal(t)
	c := s.command("simulate", "--arrivals", "1/h", "--for", "1d", "--compare", "progressive,fibonacci")
	c.Stderr = terminal
	if err := c.Run(); err != nil {
		t.Fatal(err)
	}
	terminal.WriteString("that was all")
	if !eventually(func() bool { return strings.HasSuffix(screen.String(), "that was all") }) || screen.String() != "that was all" {
		t.Errorf("the terminal shows %q", screen)
	}
	if _, _, log := s.run("simulate", "--arrivals", "2000/h", "--for", "30d", "--compare", "progressive,fibonacci"); log != "" {
		t.Errorf("standard error is %q", log)
	}
}
