// Package causes groups the errors of many records by what they have in common.
package causes

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"backlog/backlog"
	"backlog/backlog/inspect"
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

// MarshalJSON writes what commands print of a cause.
func (c *Cause) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Error   string      `json:"error"`
		Records int         `json:"records"`
		First   backlog.Key `json:"first_id"`
	}{c.String(), c.Records, c.First})
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
			inspect.Cut(inspect.Escaped(c.String()), 120), inspect.Cut(inspect.Shown(c.First.String()), 120))
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
