package causes

import (
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"unicode/utf8"
)

const (
	// maxFolding is how many bytes of a text Fold looks at, half of them at
	// its end, where programs say what was wrong.
	maxFolding = 2 << 10
	// maxFolded is the most bytes that Fold returns.
	maxFolded = 512
)

const (
	word        = `[0-9A-Za-z\x{80}-\x{10FFFF}]`
	hexadecimal = "0123456789abcdefABCDEF"
)

// quoted matches what is in quotes, which end where no letter follows.
func quoted(q string) string { return q + `(?:[^` + q + `\\]|\\.|` + q + word + `)+` + q }

// patterns are compiled when the first record fails. The tokens of a text are, by
// the group that matches: 1, a number that leads the text or follows a word for a
// status, or a label with the quotes before its message; 2, what is in quotes; 3, an
// id; none, a name of JSON, or a word with the quotes behind it, which begin nothing.
var patterns = sync.OnceValue(func() (p struct{ tokens, digits, marks *regexp.Regexp }) {
	p.tokens = regexp.MustCompile(`(^[0-5]\d\d\b|(?i:status|http|code|signal)[ :=]*\d{1,3}\b|` +
		`(?:[{,] ?["'])?(?i:error|message|msg|code|reason|detail|title|type|description)["']? ?[:=] ?["'` + "`])|" +
		`[{,] ?(?:"[^"\\]*"|'[^'\\]*'):|` +
		`(` + quoted(`"`) + `|` + quoted(`'`) + `|` + quoted("`") + `)|` +
		`([[:xdigit:]]{8}-(?:[[:xdigit:]]{4}-){3}[[:xdigit:]]{12}|0x[[:xdigit:]]+)|` +
		word + "+[\"'`]?")
	p.digits = regexp.MustCompile(`[0-9]+`)
	p.marks = regexp.MustCompile(`#(?:[.,:]?#)+`) // as of 10.0.0.1:5432
	return p
})

// Fold returns the text of an error with "#" for what differs from record to
// record: numbers, hexadecimal ids and UUIDs, what is in quotes. Numbers that
// are a status stay, and so do quoted names and messages. The result is one line
// of valid UTF-8, cut in its middle to maxFolded bytes.
func Fold(text string) string {
	if l := last.Load(); l != nil && l[0] == text {
		return l[1]
	}
	folded := fold(text)
	last.Store(&[2]string{text, folded})
	return folded
}

// last is a text and what Fold made of it: while a service is down, all records
// fail with the same error.
var last atomic.Pointer[[2]string]

func fold(text string) string {
	text = strings.ToValidUTF8(cutMiddle(text, maxFolding), "?")
	text = strings.Join(strings.FieldsFunc(text, func(r rune) bool { return r <= ' ' }), " ")
	var out strings.Builder
	p, end := patterns(), 0
	for _, m := range p.tokens.FindAllStringSubmatchIndex(text, -1) {
		out.WriteString(text[end:m[0]])
		end = m[1]
		token := text[m[0]:end]
		bare := strings.TrimRight(token, "\"'`")
		switch {
		case m[2] >= 0:
			out.WriteString(token)
		case m[4] >= 0:
			out.WriteString(token[:1] + "#" + token[:1])
		case m[6] >= 0, len(bare) >= 6 && strings.Trim(bare, hexadecimal) == "" && p.digits.MatchString(bare):
			out.WriteString("#" + token[len(bare):])
		default:
			out.WriteString(p.digits.ReplaceAllString(token, "#"))
		}
	}
	out.WriteString(text[end:])
	return cutMiddle(p.marks.ReplaceAllString(out.String(), "#"), maxFolded)
}

// cutMiddle returns the text, or as much of its beginning and end as have room,
// with a mark between them, in size bytes.
func cutMiddle(s string, size int) string {
	const mark = "…"
	if len(s) <= size {
		return s
	}
	head, tail := (size-len(mark))/2, len(s)-(size-len(mark))/2
	for head > 0 && !utf8.RuneStart(s[head]) {
		head--
	}
	for tail < len(s) && !utf8.RuneStart(s[tail]) {
		tail++
	}
	return s[:head] + mark + s[tail:]
}
