package causes

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"backlog/backlog"
)

// The memory of a pass is bounded, however much its errors differ.
func TestTallyIsBounded(t *testing.T) {
	var tally Tally
	const more = 500
	for i := range 2 * (maxCauses + more) {
		tally.Add(fmt.Sprint(i/2), strings.Repeat("y", 10*maxExample), backlog.NewKey(int64(i)))
	}
	list := tally.Causes()
	last := list[len(list)-1]
	if len(list) != maxCauses+1 || last.Text != otherErrors || last.Records != 2*more {
		t.Errorf("want %d causes and the others, got %d, the last %q with %d records", maxCauses, len(list), last.Text, last.Records)
	}
	records := 0
	for _, c := range list {
		if records += c.Records; len(c.Example) > maxExample {
			t.Errorf("want examples of at most %d bytes, got %d", maxExample, len(c.Example))
		}
	}
	if records != 2*(maxCauses+more) {
		t.Errorf("want every record counted, got %d", records)
	}
}

func TestFold(t *testing.T) {
	for _, tt := range []struct {
		name string
		errs []string // that are one cause
		want string
	}{
		{"as it is", []string{"no such city"}, "no such city"},
		{"numbers", []string{"order 17 is locked", "order 4711 is locked"}, "order # is locked"},
		{"numbers with marks", []string{"dial tcp 10.0.0.1:5432: refused", "dial tcp 192.168.17.4:80: refused"}, "dial tcp #: refused"},
		{"numbers in words", []string{"order_17a: sha256 is wrong", "order_18a: sha256 is wrong"}, "order_#a: sha# is wrong"},
		{"times", []string{"since 2026-01-05T12:00:00Z, for 1.5s", "since 2025-12-31T01:02:03.456Z, for 20s"}, "since #-#-#T#Z, for #s"},
		{"UUIDs", []string{"id 550e8400-e29b-41d4-a716-446655440000!", "id deadbeef-dead-beef-dead-beefdeadbeef!"}, "id #!"},
		{"hexadecimal", []string{"commit 7f3a9c2e at 0xc000012", "commit 12ab34 at 0x1F"}, "commit # at #"},
		{"words of hexadecimal letters", []string{"the facade faded"}, "the facade faded"},
		{"quotes", []string{`no such city "Springfield"`, `no such city "New \"York\""`}, `no such city "#"`},
		{"other quotes", []string{"table 'a' or `b`", "table 'it's' or `xyz`"}, "table '#' or `#`"},
		{"apostrophes", []string{"can't open the users' list, isn't there"}, "can't open the users' list, isn't there"},
		{"quotes without end", []string{`say "what`}, `say "what`},
		{"empty quotes", []string{`a "" b`}, `a "" b`},
		{
			"JSON",
			[]string{`HTTP 422: {"error":"quota of 10 exceeded","user":"joe"}`, `HTTP 422: {"error":"quota of 250 exceeded","user":"ann"}`},
			`HTTP 422: {"error":"quota of # exceeded","user":"#"}`,
		},
		{"labels", []string{`level=error msg="out of stock" item="x"`}, `level=error msg="out of stock" item="#"`},
		{"exit status", []string{"exit status 3"}, "exit status 3"},
		{"HTTP status", []string{"HTTP 503 after 20 ms", "HTTP 503 after 7 ms"}, "HTTP 503 after # ms"},
		{"a number that leads", []string{"550 no such user 17", "550 no such user 4711"}, "550 no such user #"},
		{"a text in quotes that a colon follows", []string{"cannot open 'a.txt': no such file", "cannot open 'b.txt': no such file"}, "cannot open '#': no such file"},
		{"status line", []string{"503 Service Unavailable: try in 5 s", "503 Service Unavailable: try in 10 s"}, "503 Service Unavailable: try in # s"},
		{"no status", []string{"postcode 123, status 12345"}, "postcode #, status #"},
		{"signals and codes, too", []string{"order 9: signal 9, code 9, HTTP 9"}, "order #: signal 9, code 9, HTTP 9"},
		{"white space", []string{"\n a\r\n\tb \n", "a b"}, "a b"},
		{"letters of other alphabets", []string{"für die Straße 5 gibt es kein Ziel 第17条", "für die Straße 77 gibt es kein Ziel 第9条"}, "für die Straße # gibt es kein Ziel 第#条"},
		{"bytes that are no letters", []string{"a\xffb\x00c"}, "a?b c"},
		{"long", []string{strings.Repeat("ä", 300) + strings.Repeat("ö", 300)}, strings.Repeat("ä", 127) + "…" + strings.Repeat("ö", 127)},
		{"nothing", []string{"", " "}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, e := range tt.errs {
				if got := Fold(e); got != tt.want {
					t.Errorf("%q becomes %q, want %q", e, got, tt.want)
				}
			}
		})
	}
}

func FuzzFold(f *testing.F) {
	for _, text := range []string{
		"dial tcp 10.0.0.1:5432: refused", `{"error":"quota of 10","id":'x'}`, "a'b 'c' `d", "exit status 3", "joe@example.com@x.", "0xc0ffee 1.2,3:4",
		"550e8400-e29b-41d4-a716-446655440000", "#.#,#", "\xff\xe2\x80", `"\"`, `a='b'c'`, strings.Repeat("'a ", 300),
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got := Fold(text)
		if len(got) > maxFolded || !utf8.ValidString(got) || strings.ContainsAny(got, "\n\r\t") {
			t.Errorf("Fold(%q) = %q, want one line of at most %d bytes of UTF-8", text, got, maxFolded)
		}
	})
}

// A line has room for a text of any length, and takes nothing of it for more
// than text.
func TestLinesCut(t *testing.T) {
	got := Lines([]Cause{{Text: "Traceback" + strings.Repeat(" x", 200) + "\x1b[2J ValueError", Records: 1234567, First: backlog.NewKey("a\nb")}})
	if !strings.HasPrefix(got, "  1,234,567 × Traceback x x") || !strings.Contains(got, ` x\x1b[2J ValueError (first: id "a\nb")`) || len([]rune(got)) > 170 {
		t.Errorf("got %q", got)
	}
}
