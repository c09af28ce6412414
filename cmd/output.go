package cmd

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"backlog/backlog"
	"backlog/backlog/causes"
	"backlog/backlog/inspect"
	"backlog/tiers"
)

type stamp = inspect.Stamp

// when returns a time as people read it.
func when(t time.Time) string { return stamp(t).String() }

// reportJSON is a pass's report on the command line. Its fields are part of
// the command's contract.
type reportJSON struct {
	Tier     string  `json:"tier"`
	MaxAge   float64 `json:"max_age_seconds"`
	Started  stamp   `json:"started"`
	Duration float64 `json:"duration_seconds"`
	backlog.Report
	Causes []causeJSON `json:"causes"`
}

// printReport prints the report of the pass called name and, below it, why records
// failed.
func printReport(w io.Writer, name string, r backlog.Report, asJSON bool, list []causes.Cause) error {
	if asJSON {
		return printJSON(w, reportJSON{r.Tier, r.MaxAge.Seconds(), stamp(r.Started), r.Duration.Seconds(), r, causesJSON(list)})
	}
	if _, err := fmt.Fprintln(w, reportText(name, r)); err != nil {
		return err
	}
	return printCauses(w, list)
}

// An outcomeCount is how many records of a pass had one outcome.
type outcomeCount struct {
	n          int
	key, words string // in the log and for people
}

// outcomeCounts returns the report's counts but for the selected records.
func outcomeCounts(r backlog.Report) []outcomeCount {
	return []outcomeCount{
		{r.Succeeded, "succeeded", "succeeded"}, {r.Failed, "failed", "failed"}, {r.GivenUp, "given_up", "of them out of retries"},
		{r.Rejected, "rejected", "rejected"}, {r.Skipped, "skipped", "skipped"},
		{r.Accepted, "accepted", "handed over"}, {r.Overdue, "overdue", "not answered by their deadline"},
		{r.Conflicts, "conflicts", "changed by somebody else meanwhile"}, {r.Refused, "refused", "refused by the database"},
		{r.Interrupted, "interrupted", "interrupted"}, {r.Unwritten, "unwritten", "not written"}, {r.Expired, "expired", "expired"},
		{r.Unreadable, "unreadable", "unreadable and left alone"},
	}
}

// reportText is the report in one line. What did not happen is not mentioned, and
// without a name no tier has ticked.
func reportText(name string, r backlog.Report) string {
	if name == "" {
		return "nothing is due"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s selected", shown(name), plural(r.Selected, "record"))
	for _, c := range outcomeCounts(r) {
		if c.n > 0 {
			fmt.Fprintf(&b, ", %d %s", c.n, c.words)
		}
	}
	fmt.Fprintf(&b, " in %v", r.Duration.Round(time.Millisecond))
	if r.Stopped != "" {
		fmt.Fprintf(&b, "; stopped by %s, the next pass goes on from there", r.Stopped)
	}
	return b.String()
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// printTable prints rows, whose cells tabs separate, in columns.
func printTable(w io.Writer, rows []string) error {
	b := bufio.NewWriter(w)
	t := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, strings.Join(rows, "\n"))
	t.Flush()
	return b.Flush()
}

// printJSON prints v on one line.
func printJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// shown returns a value of the table or the configuration, quoted if it cannot be
// printed as it is: it might hold an escape code or look like a line of ours.
func shown(s string) string {
	if escaped(s) == s {
		return s
	}
	return strconv.Quote(s)
}

// ages says which ages a tier adds.
func ages(from, to time.Duration) string {
	if from == 0 {
		return "up to " + tiers.FormatDuration(to)
	}
	return tiers.FormatDuration(from) + " to " + tiers.FormatDuration(to)
}

// shortly returns a duration in its two largest units: 6d3h for 6d3h0m50s.
func shortly(d time.Duration) string {
	for _, unit := range []struct{ from, to time.Duration }{{24 * time.Hour, time.Hour}, {time.Hour, time.Minute}} {
		if d.Abs() >= unit.from {
			return tiers.FormatDuration(d.Truncate(unit.to))
		}
	}
	return tiers.FormatDuration(d.Truncate(time.Second))
}

// escaped returns the text with everything escaped that a terminal would not show
// as it is.
func escaped(s string) string {
	q := strconv.Quote(s)
	return strings.NewReplacer(`\\`, `\`, `\"`, `"`).Replace(q[1 : len(q)-1]) // what is printable stays
}

// topCauses is how many of the most frequent causes people are shown.
const topCauses = 5

// topOf returns the causes that people are shown, the others, and how many records
// the others have.
func topOf(list []causes.Cause) (top, rest []causes.Cause, records int) {
	top, rest = list[:min(topCauses, len(list))], list[min(topCauses, len(list)):]
	for _, c := range rest {
		records += c.Records
	}
	return top, rest, records
}

// printCauses prints the causes as lines below a report.
func printCauses(w io.Writer, list []causes.Cause) error {
	top, rest, records := topOf(list)
	for _, c := range top {
		// A key may be long, too; what is cut can be seen in the log.
		if _, err := fmt.Fprintf(w, "  %s × %s (first: id %s)\n", inspect.Thousands(c.Records), cutColumns(escaped(c.String()), 120), cutColumns(shown(c.First.String()), 120)); err != nil {
			return err
		}
	}
	if len(rest) == 0 {
		return nil
	}
	_, err := fmt.Fprintf(w, "  %s × for %s\n", inspect.Thousands(records), plural(len(rest), "other cause"))
	return err
}

// causeJSON is a cause on the command line. Its fields are part of the
// command's contract.
type causeJSON struct {
	Error   string      `json:"error"`
	Records int         `json:"records"`
	First   backlog.Key `json:"first_id"`
}

func causesJSON(list []causes.Cause) []causeJSON {
	return each(list, func(c causes.Cause) causeJSON { return causeJSON{c.String(), c.Records, c.First} })
}

// cutColumns cuts the text in its middle to so many columns of a terminal.
func cutColumns(s string, columns int) string {
	r := []rune(s)
	if len(r) <= columns {
		return s
	}
	return string(r[:columns/2]) + "…" + string(r[len(r)-columns/2+1:])
}
