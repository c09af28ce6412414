package cmd

import (
	"strings"
	"testing"
	"unicode/utf8"

	"backlog/backlog"
)

func TestFold(t *testing.T) {
	for _, tt := range []struct {
		name string
		key  []any
		errs []string // that are one cause
		want string
	}{
		{"as it is", nil, []string{"no such city"}, "no such city"},
		{"numbers", nil, []string{"order 17 is locked", "order 4711 is locked"}, "order # is locked"},
		{"numbers with marks", nil, []string{"dial tcp 10.0.0.1:5432: refused", "dial tcp 192.168.17.4:80: refused"}, "dial tcp #: refused"},
		{"numbers in words", nil, []string{"order_17a: sha256 is wrong", "order_18a: sha256 is wrong"}, "order_#a: sha# is wrong"},
		{"times", nil, []string{"since 2026-01-05T12:00:00Z, for 1.5s", "since 2025-12-31T01:02:03.456Z, for 20s"}, "since #-#-#T#Z, for #s"},
		{"UUIDs", nil, []string{"id 550e8400-e29b-41d4-a716-446655440000!", "id deadbeef-dead-beef-dead-beefdeadbeef!"}, "id #!"},
		{"hexadecimal", nil, []string{"commit 7f3a9c2e at 0xc000012", "commit 12ab34 at 0x1F"}, "commit # at #"},
		{"words of hexadecimal letters", nil, []string{"the facade faded"}, "the facade faded"},
		{"random ids", nil, []string{"request req_8sKd93kD0 failed", "request req_01ARZ3NDEKTSV4RRFFQ69G5FAV failed"}, "request req_# failed"},
		{"quotes", nil, []string{`no such city "Springfield"`, `no such city "New \"York\""`}, `no such city "#"`},
		{"other quotes", nil, []string{"table 'a' or `b`", "table 'it's' or `xyz`"}, "table '#' or `#`"},
		{"apostrophes", nil, []string{"can't open the users' list, isn't there"}, "can't open the users' list, isn't there"},
		{"quotes without end", nil, []string{`say "what`}, `say "what`},
		{"empty quotes", nil, []string{`a "" b`}, `a "" b`},
		{
			"JSON", nil,
			[]string{`HTTP 422: {"error":"quota of 10 exceeded","user":"joe"}`, `HTTP 422: {"error":"quota of 250 exceeded","user":"ann"}`},
			`HTTP 422: {"error":"quota of # exceeded","user":"#"}`,
		},
		{"labels", nil, []string{`level=error msg="out of stock" item="x"`}, `level=error msg="out of stock" item="#"`},
		{"mail addresses", nil, []string{"<joe@example.com>: user unknown", "<ann.b+c@mail.example.org>: user unknown"}, "<#>: user unknown"},
		{"at the end of a sentence", nil, []string{"no mailbox for joe@example.com."}, "no mailbox for #."},
		{"no mail address", nil, []string{"3 @ home, @ 5"}, "# @ home, @ #"},
		{"exit status", nil, []string{"exit status 3"}, "exit status 3"},
		{"HTTP status", nil, []string{"HTTP 503 after 20 ms", "HTTP 503 after 7 ms"}, "HTTP 503 after # ms"},
		{"status line", nil, []string{"503 Service Unavailable: try in 5 s", "503 Service Unavailable: try in 10 s"}, "503 Service Unavailable: try in # s"},
		{"status line without words", nil, []string{"520: joe@example.com"}, "520: #"},
		{"no status line", nil, []string{"503 items", "117 items"}, "# items"},
		{"a key that looks like a status line", []any{int64(503)}, []string{"503: away"}, "#: away"},
		{"attempt", nil, []string{"attempt 0123456789abcdef-zz is lost"}, "attempt # is lost"},
		{"no status", nil, []string{"postcode 123, status 12345"}, "postcode #, status #"},
		{"a status that looks like the key", []any{int64(1)}, []string{"exit status 1"}, "exit status 1"},
		{"signals and codes, too", []any{int64(9)}, []string{"order 9: signal 9, code 9, HTTP 9"}, "order #: signal 9, code 9, HTTP 9"},
		{"a key of letters", []any{"alpha-beta"}, []string{"order alpha-beta: alpha-betas, (alpha-beta)"}, "order #: alpha-betas, (#)"},
		{"a key of several parts", []any{"acme", int64(5)}, []string{`acme/5 or ["acme",5]`}, `#/# or ["#",#]`},
		{"a key that is any word", []any{"no"}, []string{"no such city"}, "no such city"},
		{"white space", nil, []string{"\n a\r\n\tb \n", "a b"}, "a b"},
		{"letters of other alphabets", nil, []string{"für die Straße 5 gibt es kein Ziel 第17条", "für die Straße 77 gibt es kein Ziel 第9条"}, "für die Straße # gibt es kein Ziel 第#条"},
		{"bytes that are no letters", nil, []string{"a\xffb\x00c"}, "a?b c"},
		{"long", nil, []string{strings.Repeat("ä", 300) + strings.Repeat("ö", 300)}, strings.Repeat("ä", 127) + "…" + strings.Repeat("ö", 127)},
		{"nothing", nil, []string{"", " "}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := &backlog.Record{AttemptID: "0123456789abcdef-zz"}
			if tt.key != nil {
				r.Key = backlog.NewKey(tt.key...)
			}
			for _, e := range tt.errs {
				if got := fold(e, ownOf(r)); got != tt.want {
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
		f.Add(text, "alpha-7")
		f.Add(text, text)
	}
	f.Fuzz(func(t *testing.T, text, own string) {
		got := fold(text, []string{own})
		if len(got) > maxFolded || !utf8.ValidString(got) || strings.ContainsAny(got, "\n\r\t") {
			t.Errorf("fold(%q, %q) = %q, want one line of at most %d bytes of UTF-8", text, own, got, maxFolded)
		}
		if again := fold(got, []string{own}); again != got {
			t.Errorf("fold(%q, %q) = %q, and folded again %q", text, own, got, again)
		}
	})
}
