package cmd

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"backlog/backlog"
)

const (
	// maxCauses is how many causes of a pass are told apart. More are a sign
	// that texts differ in what fold does not know to be an id; what they
	// have in memory is to stay bounded all the same.
	maxCauses = 1000
	// maxExample is how many bytes of an error are kept to be shown whole:
	// what programs may say on standard error, and a little around it.
	maxExample = 3 << 10
	// topCauses is how many causes people are shown, the most frequent ones.
	topCauses = 5
)

// A cause is what a number of errors have in common.
type cause struct {
	text    string // as fold returns it; otherErrors for those not told apart
	records int
	first   backlog.Key // of the first of the records
	example string      // the error of that one
	differ  bool        // the errors are not all the same
}

// shows returns what people are told the cause is: the error itself where all
// have the same one, else what they have in common.
func (c *cause) shows() string {
	if c.differ || c.example == "" {
		return c.text
	}
	return cutMiddle(strings.Join(strings.Fields(strings.ToValidUTF8(c.example, "?")), " "), maxFolded)
}

// otherErrors stands for the causes beyond maxCauses.
const otherErrors = "other errors"

// A tally groups the errors of one pass by cause. It does not lock.
type tally struct {
	byText map[string]*cause
	list   []*cause // in the order of their first records
	others cause    // of what is beyond maxCauses
	lines  int      // records logged one by one
	held   int      // and not, to spare a terminal
	summed bool     // the pass has ended, and its causes are logged
}

func newTally() *tally { return &tally{byText: make(map[string]*cause)} }

// add counts a record whose error is the text and, folded, of that cause.
func (t *tally) add(folded, text string, key backlog.Key) *cause {
	c := t.byText[folded]
	switch {
	case c != nil:
		c.differ = c.differ || cutMiddle(text, maxExample) != c.example
	case len(t.list) < maxCauses:
		c = &cause{text: folded, first: key, example: cutMiddle(text, maxExample)}
		t.byText[folded] = c
		t.list = append(t.list, c)
	default:
		c = &t.others
		c.differ = true
		if c.records == 0 {
			c.text, c.first, c.example = otherErrors, key, cutMiddle(text, maxExample)
		}
	}
	c.records++
	return c
}

// causes returns what has been counted, the most frequent first and, where
// several are as frequent, the one that was met first. What was not told apart
// is last, as one.
func (t *tally) causes() []cause {
	list := make([]cause, 0, len(t.list)+1)
	for _, c := range t.list {
		list = append(list, *c)
	}
	slices.SortStableFunc(list, func(a, b cause) int { return b.records - a.records })
	if t.others.records > 0 {
		list = append(list, t.others)
	}
	return list
}

// topOf returns the causes that people are shown, and how many records the
// others have.
func topOf(list []cause) (top, rest []cause, records int) {
	top, rest = list[:min(topCauses, len(list))], list[min(topCauses, len(list)):]
	for _, c := range rest {
		records += c.records
	}
	return top, rest, records
}

// printCauses prints the causes as lines below a report.
func printCauses(w io.Writer, list []cause) error {
	top, rest, records := topOf(list)
	for _, c := range top {
		// A key may be long, too; what is cut can be seen in the log.
		if _, err := fmt.Fprintf(w, "  %s × %s (first: id %s)\n", thousands(c.records), cutColumns(escaped(c.shows())), cutColumns(shown(c.first.String()))); err != nil {
			return err
		}
	}
	if len(rest) == 0 {
		return nil
	}
	_, err := fmt.Fprintf(w, "  %s × for %s\n", thousands(records), plural(len(rest), "other cause"))
	return err
}

// causeJSON is a cause on the command line. Its fields are part of the
// command's contract.
type causeJSON struct {
	Error   string      `json:"error"`
	Records int         `json:"records"`
	First   backlog.Key `json:"first_id"`
}

// causesJSON is never nil.
func causesJSON(list []cause) []causeJSON {
	all := make([]causeJSON, len(list))
	for i, c := range list {
		all[i] = causeJSON{c.shows(), c.records, c.first}
	}
	return all
}

// cutColumns returns the text cut in its middle to what a line of a terminal
// has room for.
func cutColumns(s string) string {
	const columns = 120
	r := []rune(s)
	if len(r) <= columns {
		return s
	}
	return string(r[:columns/2]) + "…" + string(r[len(r)-columns/2+1:])
}

// thousands returns n as people read it: 9,998.
func thousands(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
