package inspect

import (
	"fmt"
	"strings"
	"time"

	"backlog/backlog"
)

// An OutcomeCount is how many records of a pass had one outcome.
type OutcomeCount struct {
	N          int
	Key, Words string // in the log and for people
}

// OutcomeCounts returns the report's counts but for the selected records.
func OutcomeCounts(r backlog.Report) []OutcomeCount {
	return []OutcomeCount{
		{r.Succeeded, "succeeded", "succeeded"}, {r.Failed, "failed", "failed"}, {r.GivenUp, "given_up", "of them out of retries"},
		{r.Rejected, "rejected", "rejected"}, {r.Skipped, "skipped", "skipped"},
		{r.Accepted, "accepted", "handed over"}, {r.Overdue, "overdue", "not answered by their deadline"},
		{r.Conflicts, "conflicts", "changed by somebody else meanwhile"}, {r.Refused, "refused", "refused by the database"},
		{r.Interrupted, "interrupted", "interrupted"}, {r.Unwritten, "unwritten", "not written"}, {r.Expired, "expired", "expired"},
		{r.Unreadable, "unreadable", "unreadable and left alone"},
	}
}

// ReportText is the report of the pass called name in one line. What did not happen is
// not mentioned, and without a name no tier has ticked.
func ReportText(name string, r backlog.Report) string {
	if name == "" {
		return "nothing is due"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s selected", Shown(name), Plural(r.Selected, "record"))
	for _, c := range OutcomeCounts(r) {
		if c.N > 0 {
			fmt.Fprintf(&b, ", %d %s", c.N, c.Words)
		}
	}
	fmt.Fprintf(&b, " in %v", r.Duration.Round(time.Millisecond))
	if r.Stopped != "" {
		fmt.Fprintf(&b, "; stopped by %s, the next pass goes on from there", r.Stopped)
	}
	return b.String()
}
