package handler

import (
	"bytes"
	"io"
	"strings"
	"unicode/utf8"
)

// tailSize is the number of bytes of a program's standard error that are
// kept.
const tailSize = 2 << 10

// A tail keeps the end of a stream in constant memory. The zero tail is
// empty.
type tail struct {
	buf [2 * tailSize]byte
	n   int
	cut bool // something was dropped
}

// space returns where to read to; wrote must be told how much was read. It is
// never empty.
func (t *tail) space() []byte {
	if t.n == len(t.buf) {
		t.n = copy(t.buf[:], t.buf[t.n-tailSize:])
		t.cut = true
	}
	return t.buf[t.n:]
}

func (t *tail) wrote(n int) { t.n += n }

func (t *tail) readFrom(r io.Reader) { pump(t, r) }

// String returns the last lines as valid UTF-8 without surrounding space: at
// most tailSize bytes of the stream, beginning with a whole line unless the
// last line is longer than that.
func (t *tail) String() string {
	b, cut := bytes.TrimSpace(t.buf[:t.n]), t.cut
	if extra := len(b) - tailSize; extra > 0 {
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
	// U+0000 is valid, but no text column of PostgreSQL takes it.
	s := strings.ReplaceAll(string(b), "\x00", "\uFFFD")
	return strings.TrimSpace(strings.ToValidUTF8(s, "\uFFFD"))
}

// head returns the beginning of a text as a variable of the environment can
// hold it: valid UTF-8 of about tailSize bytes at most, without NUL.
func head(text string) string {
	if len(text) > tailSize {
		end := tailSize
		for end > tailSize-utf8.UTFMax && !utf8.RuneStart(text[end]) {
			end--
		}
		text = text[:end] + "…"
	}
	return strings.ToValidUTF8(strings.ReplaceAll(text, "\x00", "\uFFFD"), "\uFFFD")
}
