package proc

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestTail(t *testing.T) {
	t.Parallel()
	line := strings.Repeat("x", 99) + "\n"
	for _, tt := range []struct{ name, in, want string }{
		{"empty", "", ""},
		{"space only", " \r\n\t", ""},
		{"trimmed", "\n  cannot deliver\r\n\n", "cannot deliver"},
		{"lines", "first\nsecond\n", "first\nsecond"},
		{"all that fits", strings.Repeat("y", TailSize), strings.Repeat("y", TailSize)},
		{"whole lines", strings.Repeat(line, 1000) + "last", strings.Repeat(line, 20) + "last"},
		{"one long line", strings.Repeat("é", 100_000) + "!", strings.Repeat("é", TailSize/2-1) + "!"},
		{"space after a lot", strings.Repeat(line, 30) + strings.Repeat("\n", 1000), strings.TrimSpace(strings.Repeat(line, 20))},
		{"nothing but space at the end", strings.Repeat(line, 30) + strings.Repeat(" ", 100_000), ""},
		{"not UTF-8", "caf\xe9 closed", "caf\uFFFD closed"},
		{"not even nearly", strings.Repeat("\x80", 100_000), "\uFFFD"},
		{"NUL", "a\x00b", "a\uFFFDb"},
	} {
		for how, r := range map[string]func(string) *Tail{
			"at once": func(s string) *Tail {
				var tl Tail
				tl.Write([]byte(s))
				return &tl
			},
			"by byte": func(s string) *Tail {
				var tl Tail
				for i := range len(s) {
					tl.Write([]byte{s[i]})
				}
				return &tl
			},
		} {
			t.Run(tt.name+" "+how, func(t *testing.T) {
				if got := r(tt.in).String(); got != tt.want {
					t.Errorf("got %q (%d bytes), want %q (%d bytes)", got, len(got), tt.want, len(tt.want))
				}
			})
		}
	}
}

func FuzzHead(f *testing.F) {
	f.Add("a\xff\x00", uint8(3))
	f.Add("\x80", uint8(250))
	f.Add("é", uint8(250))
	f.Fuzz(func(t *testing.T, s string, times uint8) {
		in := strings.Repeat(s, 16*int(times))
		got := Head(in)
		// A byte that is not UTF-8, or NUL, becomes three.
		if !utf8.ValidString(got) || strings.Contains(got, "\x00") || len(got) > 3*TailSize+len("…") {
			t.Errorf("%d bytes: %q", len(got), got)
		}
		if clean := utf8.ValidString(in) && !strings.Contains(in, "\x00"); clean && !strings.HasPrefix(in, strings.TrimSuffix(got, "…")) {
			t.Errorf("%q is not the beginning of %q", got, in)
		}
	})
}

func FuzzTail(f *testing.F) {
	f.Add([]byte("a\xff\n"), uint8(3))
	f.Add([]byte("\x80"), uint8(250))
	f.Fuzz(func(t *testing.T, b []byte, times uint8) {
		var tl Tail
		in := strings.Repeat(string(b), int(times))
		tl.Write([]byte(in))
		got := tl.String()
		if !utf8.ValidString(got) || strings.TrimSpace(got) != got || strings.Contains(got, "\x00") {
			t.Errorf("%q", got)
		}
		// A byte that is not UTF-8 becomes three.
		if len(got) > 3*TailSize {
			t.Errorf("%d bytes", len(got))
		}
	})
}
