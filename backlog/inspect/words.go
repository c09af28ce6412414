package inspect

import (
	"cmp"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"backlog/tiers"
)

// Shown returns a value of the table or the configuration, quoted if it cannot be
// printed as it is: it might hold an escape code or look like a line of ours.
func Shown(s string) string {
	if Escaped(s) == s {
		return s
	}
	return strconv.Quote(s)
}

// Escaped returns the text with everything escaped that a terminal would not show
// as it is.
func Escaped(s string) string {
	q := strconv.Quote(s)
	return strings.NewReplacer(`\\`, `\`, `\"`, `"`).Replace(q[1 : len(q)-1]) // what is printable stays
}

// OnLines is [Escaped] for a text of several lines, with tabs.
func OnLines(text string) string {
	return regexp.MustCompile(`[^\n\t]+`).ReplaceAllStringFunc(text, Escaped)
}

// Cut cuts the text in its middle to so many columns of a terminal.
func Elide(s string, columns int) string {
	r := []rune(s)
	if len(r) <= columns {
		return s
	}
	return string(r[:columns/2]) + "…" + string(r[len(r)-columns/2+1:])
}

// A Grid is rows whose cells tabs separate.
type Grid []string

// Add adds a row.
func (g *Grid) Add(format string, cells ...any) { *g = append(*g, fmt.Sprintf(format, cells...)) }

// Columns returns rows, whose cells tabs separate, in columns.
func Columns(rows []string) string {
	var b strings.Builder
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, strings.Join(rows, "\n"))
	t.Flush()
	return b.String()
}

// Plural returns how many there are: 1 record, 2 records.
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

// Ages says which ages a tier adds.
func Ages(from, to time.Duration) string {
	if from == 0 {
		return "up to " + tiers.FormatDuration(to)
	}
	return tiers.FormatDuration(from) + " to " + tiers.FormatDuration(to)
}

// Often returns in words how often a tier ticks.
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

// Shortly returns a duration in its two largest units: 6d3h for 6d3h0m50s.
func Shortly(d time.Duration) string {
	for _, unit := range []struct{ from, to time.Duration }{{24 * time.Hour, time.Hour}, {time.Hour, time.Minute}} {
		if d.Abs() >= unit.from {
			return tiers.FormatDuration(d.Truncate(unit.to))
		}
	}
	return tiers.FormatDuration(d.Truncate(time.Second))
}

// endless is nearly as long as a duration can be; beyond it only that is said.
const endless = 290 * 365 * 24 * time.Hour

// FromNow says how far away a time is.
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

// Exactly is a time as people read it, to the millisecond where it has a fraction. No zone is
// UTC.
func Exactly(t time.Time, zone *time.Location) string {
	return t.In(cmp.Or(zone, time.UTC)).Format("2006-01-02 15:04:05.999 MST")
}

// roundAge is an age as people read it: no finer than matters.
func roundAge(d time.Duration) string {
	if d >= 48*time.Hour {
		return fmt.Sprintf("%d days", int(d.Hours()/24))
	}
	return tiers.FormatDuration(d.Truncate(time.Second))
}

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

// When returns a time as people read it.
func When(t time.Time) string { return Stamp(t).String() }

// A Stamp is a time in JSON: RFC 3339 in UTC, null for the zero time and for years that
// RFC 3339 does not have.
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

// String returns the time as people read it.
func (s Stamp) String() string { return s.In(time.UTC) }

// In returns the time as people read it in a zone; nil: UTC.
func (s Stamp) In(zone *time.Location) string {
	if time.Time(s).IsZero() {
		return "-"
	}
	return time.Time(s).In(cmp.Or(zone, time.UTC)).Format("2006-01-02 15:04:05 MST")
}

// textOrNull is null in JSON where there is no text.
func textOrNull(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}
