package proc

import (
	"bytes"
	"strings"
	"unicode/utf8"

	"backlog/backlog"
)

// TailSize is the number of bytes that are kept of what a program writes.
const TailSize = 2 << 10

// A Tail is a writer that keeps the end of what is written, in little memory.
// The zero Tail is empty.
type Tail struct {
	buf []byte // twice TailSize at most: what is kept may end in space
	cut bool   // something was dropped
}

// Write implements io.Writer. It does not fail.
func (t *Tail) Write(p []byte) (int, error) {
	t.buf = append(t.buf, p...)
	if over := len(t.buf) - 2*TailSize; over > 0 {
		t.cut = true
		t.buf = append(t.buf[:0], t.buf[over:]...)
	}
	return len(p), nil
}

// String returns the last lines as valid UTF-8 without surrounding space: at
// most TailSize bytes of what was written, beginning with a whole line unless the
// last line is longer than that.
func (t *Tail) String() string {
	b, cut := bytes.TrimSpace(t.buf), t.cut
	if extra := len(b) - TailSize; extra > 0 {
		b, cut = b[extra:], true
	}
	if cut {
		if _, lines, ok := bytes.Cut(b, []byte{'\n'}); ok {
			b = lines
		} else {
			for i := 1; i < utf8.UTFMax && len(b) > 0 && !utf8.RuneStart(b[0]); i++ {
				b = b[1:]
			}
		}
	}
	return strings.TrimSpace(clean(string(b)))
}

// Head returns the beginning of a text as a variable of the environment can
// hold it: valid UTF-8 of about TailSize bytes at most, without NUL.
func Head(text string) string {
	return clean(backlog.Beginning(text, TailSize))
}

// clean returns the text as valid UTF-8 without U+0000, which is valid but in no
// text column of PostgreSQL.
func clean(text string) string {
	return strings.ToValidUTF8(strings.ReplaceAll(text, "\x00", "\uFFFD"), "\uFFFD")
}

// WithTail returns a text with the tail of what the program wrote, which may be empty.
func WithTail(text, tail string) string {
	if tail == "" {
		return text
	}
	return text + ": " + tail
}
