package cmd

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/term"
)

// watchEvery is how long `status --watch` waits before it reads again.
const watchEvery = 2 * time.Second

// Escape sequences of terminals. What does not fit into a line is left out, not wrapped.
const (
	enterScreen = "\x1b[?1049h\x1b[?25l\x1b[?7l" // another screen, without cursor and line wrap
	leaveScreen = "\x1b[?7h\x1b[?25h\x1b[?1049l"
	toTop       = "\x1b[H"
	clearLine   = "\x1b[K"
	clearBelow  = "\x1b[J"
)

// A statusScreen shows a text in place on a terminal.
type statusScreen struct {
	out  *os.File
	text string    // that was read last
	of   time.Time // when
	err  error     // of the last reading, if that failed: the text is older
}

// A reading is the result of reading the text.
type reading struct {
	text string
	err  error
}

// watchScreen shows what read returns on the terminal, until ctx is done or a person ends it. Then the terminal is as it
// was.
func watchScreen(ctx context.Context, in, out *os.File, read func(context.Context) reading) error {
	ctx, signals := onTermSignal(ctx, syscall.SIGHUP, syscall.SIGQUIT)
	defer signals.stop()
	<-signals.registered
	resized := make(chan os.Signal, 1)
	signal.Notify(resized, syscall.SIGWINCH)
	defer signal.Stop(resized)
	continued := make(chan os.Signal, 1)
	signal.Notify(continued, syscall.SIGCONT)
	defer signal.Stop(continued)
	var keys <-chan byte
	if before, err := term.MakeRaw(int(in.Fd())); err == nil { // without keys only a signal ends it
		defer term.Restore(int(in.Fd()), before)
		keys = keysOf(in)
	}
	io.WriteString(out, enterScreen)
	defer io.WriteString(out, leaveScreen)
	s := &statusScreen{out: out}
	next := time.After(0)
	results := make(chan reading, 1)
	for {
		select {
		case <-ctx.Done():
			return nil
		case key, open := <-keys:
			if !open || endsWatch(key) {
				return nil
			}
		case <-next:
			next = nil
			go func() { results <- read(ctx) }() // a database that does not answer holds up no key
		case r := <-results:
			s.take(r)
			next = time.After(watchEvery)
		case <-resized:
		case <-continued: // a shell has had the terminal since
			term.MakeRaw(int(in.Fd()))
			io.WriteString(out, enterScreen)
		}
		s.draw()
	}
}

// keysOf returns the bytes that are typed. The channel is closed when the terminal is.
func keysOf(in io.Reader) <-chan byte {
	keys := make(chan byte)
	go func() {
		defer close(keys)
		b := make([]byte, 1)
		for {
			n, err := in.Read(b)
			if err != nil {
				return
			}
			if n > 0 {
				keys <- b[0]
			}
		}
	}()
	return keys
}

// endsWatch reports whether a key ends the watch: q, Ctrl-C or Ctrl-D.
func endsWatch(key byte) bool { return bytes.IndexByte([]byte("qQ\x03\x04"), key) >= 0 }

// take takes a result.
func (s *statusScreen) take(r reading) {
	s.err = r.err
	if r.err == nil {
		s.text = r.text
		s.of = time.Now()
	}
}

// draw writes as much of the text as fits.
func (s *statusScreen) draw() {
	width, height, err := term.GetSize(int(s.out.Fd()))
	if err != nil || width < 1 || height < 1 {
		return
	}
	var b strings.Builder
	b.WriteString(toTop)
	lines := s.lines(width)
	if len(lines) > height {
		more := len(lines) - height + 1
		lines = append(lines[:height-1], fmt.Sprintf("… %d more lines: a taller window shows them", more))
	}
	for i, line := range lines {
		if i > 0 {
			b.WriteString("\r\n")
		}
		// After a line that is as wide as the terminal, the cursor is on its last character, and would clear that.
		if i < len(lines)-1 {
			b.WriteString(clearLine)
		} else {
			b.WriteString(clearBelow)
		}
		characters := []rune(line)
		b.WriteString(string(characters[:min(width, len(characters))]))
	}
	io.WriteString(s.out, b.String())
}

// lines returns the lines to show. An error is broken at the width.
func (s *statusScreen) lines(width int) []string {
	lines := []string{"q ends it; every " + watchEvery.String()}
	if !s.of.IsZero() {
		lines[0] += "; read at " + s.of.UTC().Format("15:04:05 MST")
	}
	if s.err != nil {
		var text strings.Builder
		printError(&text, s.err)
		for _, line := range linesOf(text.String()) {
			for part := range slices.Chunk([]rune(line), width) {
				lines = append(lines, string(part))
			}
		}
	}
	if s.text == "" {
		return lines
	}
	lines = append(lines, "")
	return append(lines, linesOf(s.text)...)
}

func linesOf(text string) []string { return strings.Split(strings.TrimRight(text, "\n"), "\n") }
