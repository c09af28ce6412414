package cmd

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"backlog/backlog"
)

// stamp is a time as JSON shows it: RFC 3339 in UTC, or null where there is none
// or none that this can write.
type stamp time.Time

func (s stamp) MarshalJSON() ([]byte, error) {
	t := time.Time(s).UTC()
	if t.IsZero() || t.Year() < 0 || t.Year() > 9999 {
		return []byte("null"), nil
	}
	return t.MarshalJSON()
}

// reportJSON is a pass's report on the command line. Its fields are part of
// the command's contract.
type reportJSON struct {
	Tier        string  `json:"tier"`
	MaxAge      float64 `json:"max_age_seconds"`
	Started     stamp   `json:"started"`
	Duration    float64 `json:"duration_seconds"`
	Selected    int     `json:"selected"`
	Succeeded   int     `json:"succeeded"`
	Failed      int     `json:"failed"`
	Rejected    int     `json:"rejected"`
	Skipped     int     `json:"skipped"`
	Conflicts   int     `json:"conflicts"`
	Expired     int     `json:"expired"`
	Complete    bool    `json:"complete"`
	Stopped     string  `json:"stopped"`
	Refused     int     `json:"refused"`
	Interrupted int     `json:"interrupted"`
	Unwritten   int     `json:"unwritten"`
	Unreadable  int     `json:"unreadable"`
	GivenUp     int     `json:"given_up"`

	Causes []causeJSON `json:"causes"`
}

// printReport prints the report and, below it, why records failed.
func printReport(w io.Writer, r backlog.Report, asJSON bool, causes []cause) error {
	if asJSON {
		return printJSON(w, reportJSON{
			Tier: r.Tier, MaxAge: r.MaxAge.Seconds(), Started: stamp(r.Started), Duration: r.Duration.Seconds(),
			Selected: r.Selected, Succeeded: r.Succeeded, Failed: r.Failed, Rejected: r.Rejected, Skipped: r.Skipped,
			Conflicts: r.Conflicts, Expired: r.Expired, Complete: r.Complete, Stopped: r.Stopped,
			Refused: r.Refused, Interrupted: r.Interrupted, Unwritten: r.Unwritten, Unreadable: r.Unreadable,
			GivenUp: r.GivenUp, Causes: causesJSON(causes),
		})
	}
	if _, err := fmt.Fprintln(w, reportText(r)); err != nil {
		return err
	}
	return printCauses(w, causes)
}

// nothingDue is all there is to say where no tier has ticked.
const nothingDue = "nothing is due"

// reportText is the report in one line. What did not happen is not mentioned.
func reportText(r backlog.Report) string {
	if r.Tier == "" {
		return nothingDue
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s selected", shown(r.Tier), plural(r.Selected, "record"))
	for _, x := range []struct {
		n    int
		word string
	}{
		{r.Succeeded, "succeeded"}, {r.Failed, "failed"}, {r.GivenUp, "of them out of retries"},
		{r.Rejected, "rejected"}, {r.Skipped, "skipped"},
		{r.Conflicts, "changed by somebody else meanwhile"}, {r.Refused, "refused by the database"},
		{r.Interrupted, "interrupted"}, {r.Unwritten, "not written"}, {r.Expired, "expired"},
		{r.Unreadable, "unreadable and left alone"},
	} {
		if x.n > 0 {
			fmt.Fprintf(&b, ", %d %s", x.n, x.word)
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

// printJSON prints v on one line.
func printJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}
