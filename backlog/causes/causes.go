// Package causes groups the errors of many records by what they have in common: [Fold] replaces what
// differs from record to record, and a [Tally] counts the folded texts.
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
	// maxCauses is how many causes a Tally distinguishes. It bounds the memory if Fold does not
	// recognize an id.
	maxCauses = 1000
	// maxExample is how many bytes of an example are kept: a little more than what is kept of a
	// handler's standard error.
	maxExample = 3 << 10
)

// A Cause is what a number of errors have in common.
type Cause struct {
	Text    string      // from [Fold]; "other errors" for those beyond the bound of a [Tally]
	Records int         // how often [Tally.Add] has counted it
	First   backlog.Key // of the first of the records
	Example string      // the error of that record, cut to a bounded length
	differ  bool        // the errors are not all the same
}

// String returns the error if all records have the same, else what their errors have in common.
func (c *Cause) String() string {
	if c.differ || c.Example == "" {
		return c.Text
	}
	line := strings.Join(strings.Fields(strings.ToValidUTF8(c.Example, "?")), " ")
	return cutMiddle(line, maxFolded)
}

// maxShown is how many causes are shown to people.
const maxShown = 5

// Top returns the causes to show to people, how many others there are, and how many records these
// have. The list is in the order of [Tally.Causes].
func Top(list []Cause) (top []Cause, others, records int) {
	top = list[:min(maxShown, len(list))]
	for _, c := range list[len(top):] {
		records += c.Records
	}
	return top, len(list) - len(top), records
}

// Lines returns the causes as indented lines for people. Long errors and keys are cut; the log has
// them.
func Lines(list []Cause) string {
	text := ""
	top, others, records := Top(list)
	for _, c := range top {
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

// A Tally groups errors by cause. The zero value has none. It must not be used concurrently.
type Tally struct {
	byText map[string]*Cause
	list   []*Cause // in the order of their first records
}

// Add counts a record with an error and returns the error's cause. folded is what [Fold] returns for
// the text.
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

// Causes returns the most frequent cause first; of equally frequent ones, the one that was added
// first. The errors beyond the bound are one cause, which is the last.
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
	// maxFolding is how many bytes of a text Fold looks at. Half of them are at its end, where
	// programs say what is wrong.
	maxFolding = 2 << 10
	// maxFolded is the most bytes that Fold returns.
	maxFolded = 512

	word        = `[0-9A-Za-z\x{80}-\x{10FFFF}]`
	hexadecimal = "0123456789abcdefABCDEF"
)

// quoted returns an expression for what is between two quotes q. A quote within a word does not end
// it.
func quoted(q string) string { return q + `(?:[^` + q + `\\]|\\.|` + q + word + `)+` + q }

// These expressions are compiled when the first record fails. tokens matches, by its groups:
//
//	1     stays: a number at the start of the text or after a word such as status, or a label
//	      such as message: with the quote before its value
//	2     a quoted text
//	3     an id: a UUID or a hexadecimal number
//	none  a key of JSON, or a word with a quote after it, which does not begin a quoted text
var (
	tokens = pattern.Lazily(`(^[0-5]\d\d\b|(?i:status|http|code|signal)[ :=]*\d{1,3}\b|` +
		`(?:[{,] ?["'])?(?i:error|message|msg|code|reason|detail|title|type|description)["']? ?[:=] ?["'` + "`])|" +
		`[{,] ?(?:"[^"\\]*"|'[^'\\]*'):|` +
		`(` + quoted(`"`) + `|` + quoted(`'`) + `|` + quoted("`") + `)|` +
		`([[:xdigit:]]{8}-(?:[[:xdigit:]]{4}-){3}[[:xdigit:]]{12}|0x[[:xdigit:]]+)|` +
		word + "+[\"'`]?")
	digits = pattern.Lazily(`[0-9]+`)
	marks  = pattern.Lazily(`#(?:[.,:]?#)+`) // what remains of 10.0.0.1:5432
)

// Fold returns the text of an error with "#" in place of what differs from record to record:
// numbers, UUIDs, hexadecimal ids and quoted texts. Numbers that are a status stay, and so do quoted
// names and messages. The result is one line of valid UTF-8, cut in its middle to 512 bytes. Fold may
// be called concurrently.
func Fold(text string) string {
	if f := lastFold.Load(); f != nil && f.text == text {
		return f.folded
	}
	f := &foldedText{text: text, folded: fold(text)}
	lastFold.Store(f)
	return f.folded
}

// A foldedText is a text and what Fold returned for it.
type foldedText struct{ text, folded string }

// lastFold saves work while a service is down: all records then fail with the same error.
var lastFold atomic.Pointer[foldedText]

// fold does the work of [Fold].
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
		case m[6] >= 0 || isHexID(bare):
			out.WriteString("#" + token[len(bare):])
		default:
			out.WriteString(digits().ReplaceAllString(token, "#"))
		}
	}
	out.WriteString(text[end:])
	return cutMiddle(marks().ReplaceAllString(out.String(), "#"), maxFolded)
}

// isHexID reports whether a word looks like a hexadecimal id: long enough, and with a digit.
func isHexID(word string) bool {
	return len(word) >= 6 && strings.Trim(word, hexadecimal) == "" && digits().MatchString(word)
}

// cutMiddle returns the text in at most size bytes: its beginning, a mark and its end if it is
// longer.
func cutMiddle(s string, size int) string {
	const mark = "…"
	if len(s) <= size {
		return s
	}
	half := (size - len(mark)) / 2
	head := half
	tail := len(s) - half
	for head > 0 && !utf8.RuneStart(s[head]) {
		head--
	}
	for tail < len(s) && !utf8.RuneStart(s[tail]) {
		tail++
	}
	return s[:head] + mark + s[tail:]
}

// Has reports whether an error's text contains the part: as it is, on one line, or folded.
func Has(text, part string) bool {
	oneLine := strings.Join(strings.Fields(text), " ")
	if strings.Contains(text, part) || strings.Contains(oneLine, part) {
		return true
	}
	// A part without "#" that is in the folded text is in the text as well.
	return strings.Contains(part, "#") && strings.Contains(Fold(text), part)
}
