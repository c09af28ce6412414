// Package causes groups the errors of many records by what they have in common.
package causes

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"unicode/utf8"

	"backlog/backlog"
	"backlog/backlog/inspect"
	"backlog/backlog/pattern"
)

const (
	// maxCauses is how many causes a Tally distinguishes, so that memory
	// stays bounded where Fold takes no id for one.
	maxCauses = 1000
	// maxExample is how many bytes of an error are kept to be shown whole:
	// what programs may say on standard error, and a little around it.
	maxExample = 3 << 10
)

// A Cause is what a number of errors have in common.
type Cause struct {
	Text    string // as Fold returns it; for errors beyond the bound: "other errors"
	Records int
	First   backlog.Key // of the first of the records
	Example string      // the error of that one, bounded
	differ  bool        // the errors are not all the same
}

// String returns the error itself where all records have the same one, else what
// the errors have in common.
func (c *Cause) String() string {
	if c.differ || c.Example == "" {
		return c.Text
	}
	return cutMiddle(strings.Join(strings.Fields(strings.ToValidUTF8(c.Example, "?")), " "), maxFolded)
}

// shown is how many of the most frequent causes people are shown.
const shown = 5

// Top returns the causes that people are shown, how many others there are, and how many
// records these have.
func Top(list []Cause) (top []Cause, others, records int) {
	top = list[:min(shown, len(list))]
	for _, c := range list[len(top):] {
		records += c.Records
	}
	return top, len(list) - len(top), records
}

// Lines returns the causes as lines below a report.
func Lines(list []Cause) (text string) {
	top, others, records := Top(list)
	for _, c := range top {
		// A key may be long, too; what is cut can be seen in the log.
		text += fmt.Sprintf("  %s × %s (first: id %s)\n", inspect.Thousands(c.Records),
			inspect.Elide(inspect.Escaped(c.String()), 120), inspect.Elide(inspect.Shown(c.First.String()), 120))
	}
	if others > 0 {
		text += fmt.Sprintf("  %s × for %s\n", inspect.Thousands(records), inspect.Plural(others, "other cause"))
	}
	return text
}

// otherErrors stands for the causes beyond maxCauses.
const otherErrors = "other errors"

// A Tally groups the errors of one pass by cause. The zero value is an empty one.
// It does not lock.
type Tally struct {
	byText map[string]*Cause
	list   []*Cause // in the order of their first records
}

// Add counts a record with the error and returns the cause, to which the error
// belongs by what Fold has made of it.
func (t *Tally) Add(folded, text string, key backlog.Key) *Cause {
	if t.byText == nil {
		t.byText = make(map[string]*Cause)
	}
	if t.byText[folded] == nil && len(t.list) >= maxCauses {
		folded = otherErrors
	}
	text = cutMiddle(text, maxExample)
	c := t.byText[folded]
	if c == nil {
		c = &Cause{Text: folded, First: key, Example: text, differ: folded == otherErrors}
		t.byText[folded] = c
		t.list = append(t.list, c)
	}
	c.differ = c.differ || text != c.Example
	c.Records++
	return c
}

// Causes returns the most frequent cause first, of equally frequent ones the one
// that was met first. The errors beyond the bound are last, as one cause.
func (t *Tally) Causes() []Cause {
	list := make([]Cause, 0, len(t.list))
	for _, c := range t.list {
		if c.Text != otherErrors {
			list = append(list, *c)
		}
	}
	slices.SortStableFunc(list, func(a, b Cause) int { return b.Records - a.Records })
	if others := t.byText[otherErrors]; others != nil {
		list = append(list, *others)
	}
	return list
}

const (
	// maxFolding is how many bytes of a text Fold looks at, half of them at
	// its end, where programs say what was wrong.
	maxFolding = 2 << 10
	// maxFolded is the most bytes that Fold returns.
	maxFolded = 512

	word        = `[0-9A-Za-z\x{80}-\x{10FFFF}]`
	hexadecimal = "0123456789abcdefABCDEF"
)

// quoted matches what is in quotes, which end where no letter follows.
func quoted(q string) string { return q + `(?:[^` + q + `\\]|\\.|` + q + word + `)+` + q }

// The expressions are compiled when the first record fails. The tokens of a text are, by the
// group that matches: 1, a number that leads the text or follows a word for a status, or a
// label with the quotes before its message; 2, what is in quotes; 3, an id; none, a name of
// JSON, or a word with the quotes behind it, which begin nothing.
var (
	tokens = pattern.Lazily(`(^[0-5]\d\d\b|(?i:status|http|code|signal)[ :=]*\d{1,3}\b|` +
		`(?:[{,] ?["'])?(?i:error|message|msg|code|reason|detail|title|type|description)["']? ?[:=] ?["'` + "`])|" +
		`[{,] ?(?:"[^"\\]*"|'[^'\\]*'):|` +
		`(` + quoted(`"`) + `|` + quoted(`'`) + `|` + quoted("`") + `)|` +
		`([[:xdigit:]]{8}-(?:[[:xdigit:]]{4}-){3}[[:xdigit:]]{12}|0x[[:xdigit:]]+)|` +
		word + "+[\"'`]?")
	digits = pattern.Lazily(`[0-9]+`)
	marks  = pattern.Lazily(`#(?:[.,:]?#)+`) // as of 10.0.0.1:5432
)

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
	end := 0
	for _, m := range tokens().FindAllStringSubmatchIndex(text, -1) {
		out.WriteString(text[end:m[0]])
		end = m[1]
		token := text[m[0]:end]
		bare := strings.TrimRight(token, "\"'`")
		switch {
		case m[2] >= 0:
			out.WriteString(token)
		case m[4] >= 0:
			out.WriteString(token[:1] + "#" + token[:1])
		case m[6] >= 0, len(bare) >= 6 && strings.Trim(bare, hexadecimal) == "" && digits().MatchString(bare):
			out.WriteString("#" + token[len(bare):])
		default:
			out.WriteString(digits().ReplaceAllString(token, "#"))
		}
	}
	out.WriteString(text[end:])
	return cutMiddle(marks().ReplaceAllString(out.String(), "#"), maxFolded)
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

// Has reports whether part is a part of the error's text, as it is or on one line, or of
// what Fold makes of it.
func Has(text, part string) bool {
	return strings.Contains(text, part) || strings.Contains(strings.Join(strings.Fields(text), " "), part) ||
		strings.Contains(part, "#") && strings.Contains(Fold(text), part) // without # it has nothing that the text has not
}
