package inspect

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"backlog/tiers"
)

// Shown returns a text of the table or the configuration, in quotes if it cannot be printed as it is. It could
// contain an escape code of the terminal, or look like a line of this program.
func Shown(s string) string {
	if Escaped(s) == s {
		return s
	}
	return strconv.Quote(s)
}

// Escaped returns the text with escapes for all characters that a terminal would not print.
func Escaped(s string) string {
	q := strconv.Quote(s)
	return strings.NewReplacer(`\\`, `\`, `\"`, `"`).Replace(q[1 : len(q)-1]) // backslashes and quotes can be printed
}

// OnLines is [Escaped] for a text of several lines, which may contain tabs.
func OnLines(text string) string {
	return regexp.MustCompile(`[^\n\t]+`).ReplaceAllStringFunc(text, Escaped)
}

// Elide shortens a text to a number of columns of a terminal by cutting out its middle.
func Elide(s string, columns int) string {
	r := []rune(s)
	if len(r) <= columns {
		return s
	}
	return string(r[:columns/2]) + "…" + string(r[len(r)-columns/2+1:])
}

// A Grid is a list of rows whose cells are separated by tabs.
type Grid []string

// Add appends a row.
func (g *Grid) Add(format string, cells ...any) { *g = append(*g, fmt.Sprintf(format, cells...)) }

// Columns aligns rows whose cells are separated by tabs.
func Columns(rows []string) string {
	var b strings.Builder
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, strings.Join(rows, "\n"))
	t.Flush()
	return b.String()
}

// Sparkline draws values as a line of blocks. The greatest one has a full block.
func Sparkline(values []int) string {
	blocks := []rune(" ▁▂▃▄▅▆▇█")
	top := max(1, slices.Max(append(values, 0)))
	var line strings.Builder
	for _, v := range values {
		height := (max(0, v)*(len(blocks)-1) + top - 1) / top
		line.WriteRune(blocks[height])
	}
	return strings.TrimRight(line.String(), " ")
}

// Levels are the characters of a line of values: for no value, for 0, and for the steps above it.
type Levels struct {
	None, Zero rune
	Steps      []rune
}

// Blocks are levels for terminals that show Unicode, and Digits those for others.
var (
	Blocks = Levels{None: '·', Zero: ' ', Steps: []rune("▁▂▃▄▅▆▇█")}
	Digits = Levels{None: '-', Zero: '.', Steps: []rune("123456789")}
)

// Line draws a character for each value. The greatest value has the last step.
func (l Levels) Line(values []*int) string {
	top := 1
	for _, v := range values {
		if v != nil {
			top = max(top, *v)
		}
	}
	var line strings.Builder
	for _, v := range values {
		switch {
		case v == nil:
			line.WriteRune(l.None)
		case *v <= 0:
			line.WriteRune(l.Zero)
		default:
			line.WriteRune(l.Steps[(*v*len(l.Steps)+top-1)/top-1])
		}
	}
	return line.String()
}

// Plural returns a number with its noun: 1 record, 2 records.
func Plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// Thousands returns n with commas: 9,998.
func Thousands(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// Ages returns a range of ages in words.
func Ages(from, to time.Duration) string {
	if from == 0 {
		return "up to " + tiers.FormatDuration(to)
	}
	return tiers.FormatDuration(from) + " to " + tiers.FormatDuration(to)
}

// Often returns in words when a tier ticks.
func Often(t tiers.Tier) string {
	if t.Cron != "" {
		return fmt.Sprintf("at %q in %v", t.Cron, t.Location)
	}
	s := "every " + tiers.FormatDuration(t.Every)
	if t.Offset > 0 {
		s += " with an offset of " + tiers.FormatDuration(t.Offset)
	}
	return s
}

// Shortly returns a duration in at most two units: 6d3h for 6d3h0m50s.
func Shortly(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d.Abs() >= day:
		return tiers.FormatDuration(d.Truncate(time.Hour))
	case d.Abs() >= time.Hour:
		return tiers.FormatDuration(d.Truncate(time.Minute))
	}
	return tiers.FormatDuration(d.Truncate(time.Second))
}

// endless is nearly the longest duration. A difference of times that is longer is cut to the longest one.
const endless = 290 * 365 * 24 * time.Hour

// FromNow says how far a time is away.
func FromNow(t, now time.Time) string {
	switch d := t.Sub(now).Round(time.Second); {
	case d >= endless:
		return "in more than 290 years"
	case d <= -endless:
		return "more than 290 years ago"
	case d > 0:
		return "in " + Shortly(d)
	case d < 0:
		return Shortly(-d) + " ago"
	}
	return "now"
}

// FormatTime returns a time for people, with milliseconds if there are any. A nil zone is UTC.
func FormatTime(t time.Time, zone *time.Location) string {
	return t.In(cmp.Or(zone, time.UTC)).Format("2006-01-02 15:04:05.999 MST")
}

// roundAge returns an age for people, in whole days from two days on.
func roundAge(d time.Duration) string {
	if d >= 48*time.Hour {
		return fmt.Sprintf("%d days", int(d.Hours()/24))
	}
	return tiers.FormatDuration(d.Truncate(time.Second))
}

// times returns how often something happened in words.
func times(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

// When returns a time for people, in UTC.
func When(t time.Time) string { return Stamp(t).String() }

// A Stamp is a time whose JSON is RFC 3339 in UTC. The zero time, and years that RFC 3339 does not have, are
// null.
type Stamp time.Time

// MarshalJSON implements [json.Marshaler].
func (s Stamp) MarshalJSON() ([]byte, error) {
	t := time.Time(s).UTC()
	if t.IsZero() || t.Year() < 0 || t.Year() > 9999 {
		return []byte("null"), nil
	}
	return t.MarshalJSON()
}

// UnmarshalJSON implements [json.Unmarshaler].
func (s *Stamp) UnmarshalJSON(b []byte) error { return (*time.Time)(s).UnmarshalJSON(b) }

// String returns the time for people, in UTC.
func (s Stamp) String() string { return s.In(time.UTC) }

// In returns the time for people in a zone; nil: UTC.
func (s Stamp) In(zone *time.Location) string {
	if time.Time(s).IsZero() {
		return "-"
	}
	return time.Time(s).In(cmp.Or(zone, time.UTC)).Format("2006-01-02 15:04:05 MST")
}

// textOrNull returns a pointer for JSON, where an empty text is null.
func textOrNull(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}
