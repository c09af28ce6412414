package simulate

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"backlog/backlog"
	"backlog/backlog/inspect"
	"backlog/internal/lists"
	"backlog/tiers"
)

// A Report is what became of a workload.
type Report struct {
	Records   int `json:"records"` // Succeeded + Dead + Pending
	Attempts  int `json:"attempts"`
	Succeeded int `json:"succeeded"`
	Failed    int `json:"failed"` // attempts that failed
	Dead      int `json:"dead"`
	Pending   int `json:"pending"`

	// Recovery is about the records that were pending at the end of an outage and succeeded
	// later: how long after the last such outage. Lost counts the records that could have
	// succeeded, but were pending during an outage and died.
	Recovery  Recovery `json:"recovery_seconds"`
	Recovered int      `json:"recovered"` // the length of Recovery
	Lost      int      `json:"lost"`

	PeakPerMinute int      `json:"peak_per_minute"`      // the most attempts that begin in one minute of the clock
	LongestPass   Span     `json:"longest_pass_seconds"` // from its tick to its end
	SkippedTicks  int      `json:"skipped_ticks"`        // of tiers whose last pass still ran
	Complete      bool     `json:"complete"`             // it was not stopped
	Series        []Bucket `json:"series"`
	Ticks         []Tick   `json:"ticks,omitzero"` // in the order of time; nil without Options.Ticks
}

// A Recovery is how long each record took to succeed, the shortest first.
type Recovery []time.Duration

// MarshalJSON returns the 50th and the 95th percentile and the maximum, in seconds.
func (r Recovery) MarshalJSON() ([]byte, error) {
	p50 := Span(r.Quantile(0.5)).Seconds()
	p95 := Span(r.Quantile(0.95)).Seconds()
	longest := Span(r.Quantile(1)).Seconds()
	return fmt.Appendf(nil, `{"p50":%s,"p95":%s,"max":%s}`, p50, p95, longest), nil
}

// A Tick is a tick whose pass made attempts. Attempts counts them all, however late they began.
type Tick struct {
	At       time.Time `json:"at"`
	Tier     string    `json:"tier"`
	Attempts int       `json:"attempts"`
}

// A Bucket counts what happened in (At, At + the width of a bucket].
type Bucket struct {
	At         time.Time `json:"at"`
	Attempts   int       `json:"attempts"`
	Failed     int       `json:"failed"`
	Dead       int       `json:"dead"`        // records given up or too old
	Pending    int       `json:"pending"`     // at its end
	MaxPending int       `json:"pending_max"` // the most at any time in it
}

// finish completes the report from what was counted in minutes and ticks.
func (r *run) finish() {
	report := r.report
	report.Pending = report.Records - report.Succeeded - report.Dead
	for i := range report.Series {
		report.Series[i].At = r.workload.From.Add(time.Duration(i) * r.Bucket)
	}
	pending := 0
	for i, m := range r.minutes {
		at := r.workload.From.Add(time.Duration(i) * time.Minute)
		b := &report.Series[r.bucketIndex(at)]
		pending += int(m.added)
		b.MaxPending = max(b.MaxPending, pending)
		pending -= int(m.removed)
		b.Pending = pending
		report.PeakPerMinute = max(report.PeakPerMinute, int(m.calls))
	}
	slices.Sort(report.Recovery)
	report.Recovered = len(report.Recovery)
	if r.Ticks {
		report.Ticks = slices.AppendSeq([]Tick{}, maps.Values(r.ticks))
		slices.SortFunc(report.Ticks, func(a, b Tick) int { return a.At.Compare(b.At) })
	}
}

// Quantile returns the time within which the share q of the records succeeded, by the nearest
// rank; zero if there are none.
func (r Recovery) Quantile(q float64) time.Duration {
	if len(r) == 0 {
		return 0
	}
	rank := int(math.Ceil(q * float64(len(r)))) // from 1
	return r[min(max(1, rank), len(r))-1]
}

// bucketWidths are the usual widths of a bucket.
var bucketWidths = []time.Duration{
	time.Minute, 5 * time.Minute, 15 * time.Minute,
	time.Hour, 3 * time.Hour, 6 * time.Hour,
	24 * time.Hour, 7 * 24 * time.Hour,
}

// bucketWidth returns the first usual width that divides the length into at most 150 buckets,
// or 30 days.
func bucketWidth(length time.Duration) time.Duration {
	for _, w := range bucketWidths {
		if length <= 150*w {
			return w
		}
	}
	return 30 * 24 * time.Hour
}

// sparklineWidth is how many marks of a sparkline fit into a line of a terminal.
const sparklineWidth = 68

// Sparklines draws calls, pending and dead records over time, below a line that tells the scale.
// It returns "" for a series of one bucket.
func (r *Result) Sparklines() string {
	series := downsample(r.Series, sparklineWidth)
	if len(series) < 2 {
		return ""
	}
	width := series[1].At.Sub(series[0].At)
	rows := []struct {
		name  string
		unit  string
		value func(Bucket) int
	}{
		{"calls", "calls", func(b Bucket) int { return b.Attempts }},
		{"pending", "records pending", func(b Bucket) int { return b.MaxPending }},
		{"dead", "dead", func(b Bucket) int { return b.Dead }},
	}
	if r.Dead == 0 {
		rows = rows[:2]
	}
	last := len(series) - 1
	lastIsShorter := r.To.Sub(series[last].At) < width
	var scale, lines strings.Builder
	for _, row := range rows {
		fmt.Fprintf(&scale, ", %d %s", greatest(series, row.value), row.unit)
		drawn := series
		if row.name == "calls" && lastIsShorter { // it would look like a fall
			drawn = series[:last]
		}
		fmt.Fprintf(&lines, "  %-7s  %s\n", row.name, inspect.Sparkline(lists.Map(drawn, row.value)))
	}
	return fmt.Sprintf("%s a mark, at most%s\n%s", tiers.FormatDuration(width), scale.String()[1:], lines.String())
}

// downsample joins neighbours of the series until there are at most so many buckets. Of a joined
// bucket only what is drawn is right: Attempts, Dead and MaxPending.
func downsample(series []Bucket, most int) []Bucket {
	var list []Bucket
	size := divideUp(len(series), most)
	for i, b := range series {
		if i%size == 0 {
			list = append(list, b)
			continue
		}
		joined := &list[len(list)-1]
		joined.Attempts += b.Attempts
		joined.Dead += b.Dead
		joined.MaxPending = max(joined.MaxPending, b.MaxPending)
	}
	return list
}

// endOf returns when a bucket ends. The last one of the series ends with the workload.
func endOf(series []Bucket, bucket int, last time.Time) time.Time {
	if bucket+1 < len(series) {
		return series[bucket+1].At
	}
	return last
}

// greatest returns the greatest value in the series, 0 if none is greater.
func greatest(series []Bucket, value func(Bucket) int) int {
	most := 0
	for _, b := range series {
		most = max(most, value(b))
	}
	return most
}

// A Candidate is a schedule and a policy under which a workload is simulated.
type Candidate struct {
	Name string
	Options
}

// A Result is what became of a workload under a candidate.
type Result struct {
	Name     string          `json:"policy"`
	Seed     uint64          `json:"seed"`
	Schedule *tiers.Schedule `json:"-"`
	To       time.Time       `json:"-"` // the end of the workload
	*Report
}

// Compare simulates the workload under each candidate, one after the other. With an error it
// returns the results so far; the last may be incomplete.
func Compare(ctx context.Context, w *Workload, list []Candidate) ([]Result, error) {
	var all []Result
	for _, c := range list {
		if ctx.Err() != nil {
			return all, ctx.Err()
		}
		r, err := Run(ctx, w, c.Options)
		if r.Complete || r.Attempts > 0 {
			all = append(all, Result{Name: c.Name, Seed: w.Seed, Schedule: c.Schedule, To: w.To, Report: r})
		}
		if err != nil {
			return all, err
		}
	}
	return all, nil
}

// A Figure is a number of a report by which results are compared. The least is the best.
type Figure struct {
	Title      string // of its column
	Name       string // in a line of its own
	Key        string // in JSON
	value      func(*Report) int64
	isDuration bool // the value is a time.Duration; in JSON it is in seconds
	optional   bool // it has no column if it is zero in all results

	// recovery marks a figure about how soon the records succeed that an outage has delayed.
	// Without such records the report has no such figure. If records were lost in the outage,
	// the figure is never the best: it lacks the records that failed worst.
	recovery bool
}

var figures = []Figure{
	{Title: "CALLS", Name: "calls", Key: "attempts", value: func(r *Report) int64 { return int64(r.Attempts) }},
	{Title: "FAILED", Name: "calls that fail", Key: "failed", value: func(r *Report) int64 { return int64(r.Failed) }},
	{Title: "PEAK/MIN", Name: "calls in one minute, at most", Key: "peak_per_minute", value: func(r *Report) int64 { return int64(r.PeakPerMinute) }},
	{Title: "RECOVERY P50", Name: "recovery, half of them within", Key: "recovery_p50_seconds", value: recoveryWithin(0.5), isDuration: true, recovery: true},
	{Title: "P95", Name: "recovery, 95% within", Key: "recovery_p95_seconds", value: recoveryWithin(0.95), isDuration: true, recovery: true},
	{Title: "MAX", Name: "recovery, all within", Key: "recovery_max_seconds", value: recoveryWithin(1), isDuration: true, recovery: true},
	{Title: "LOST", Name: "lost in an outage", Key: "lost", value: func(r *Report) int64 { return int64(r.Lost) }, optional: true},
	{Title: "LONGEST PASS", Name: "the longest pass", Key: "longest_pass_seconds", value: func(r *Report) int64 { return int64(r.LongestPass) }, isDuration: true, optional: true},
	{Title: "TICKS SKIPPED", Name: "ticks skipped while a pass ran", Key: "skipped_ticks", value: func(r *Report) int64 { return int64(r.SkippedTicks) }, optional: true},
	{Title: "GIVEN UP", Name: "given up", Key: "dead", value: func(r *Report) int64 { return int64(r.Dead) }},
	{Title: "PENDING", Name: "pending at the end", Key: "pending", value: func(r *Report) int64 { return int64(r.Pending) }},
}

func recoveryWithin(q float64) func(*Report) int64 {
	return func(r *Report) int64 { return int64(r.Recovery.Quantile(q)) }
}

// Figures returns the figures that get a column in a table of the results.
func Figures(all []Result) []Figure {
	return slices.DeleteFunc(slices.Clone(figures), func(f Figure) bool {
		counts := slices.ContainsFunc(all, func(r Result) bool { return f.value(r.Report) != 0 })
		return f.optional && !counts
	})
}

// Changed returns the figures in which two results differ.
func Changed(was, will Result) []Figure {
	same := func(f Figure) bool { return f.value(was.Report) == f.value(will.Report) }
	return slices.DeleteFunc(slices.Clone(figures), same)
}

// Text returns the figure of a report for people.
func (f *Figure) Text(r *Report) string {
	switch {
	case f.recovery && len(r.Recovery) == 0:
		return "-"
	case f.isDuration:
		return Span(f.value(r)).String()
	}
	return strconv.FormatInt(f.value(r), 10)
}

// Number returns the figure of a report for JSON.
func (f *Figure) Number(r *Report) json.Number {
	if f.isDuration {
		return json.Number(Span(f.value(r)).Seconds())
	}
	return json.Number(strconv.FormatInt(f.value(r), 10))
}

// Cells returns the figure's column, a text per result. The best ones end in a star, unless all
// texts are the same or a result is incomplete.
func (f *Figure) Cells(all []Result) []string {
	cells := make([]string, len(all))
	least := int64(math.MaxInt64)
	best := ""
	for i, r := range all {
		cells[i] = f.Text(r.Report)
		if v := f.value(r.Report); f.canBeBest(r.Report) && v < least {
			least = v
			best = cells[i]
		}
	}
	incomplete := slices.ContainsFunc(all, func(r Result) bool { return !r.Complete })
	differ := slices.ContainsFunc(cells, func(c string) bool { return c != best })
	if incomplete || !differ {
		return cells
	}
	for i, r := range all {
		if cells[i] == best && f.canBeBest(r.Report) {
			cells[i] += "*"
		}
	}
	return cells
}

// canBeBest reports whether the figure of a report may get a star.
func (f *Figure) canBeBest(r *Report) bool {
	recovered := len(r.Recovery) > 0 && r.Lost == 0
	return !f.recovery || recovered
}

// Change returns by how much the figure changes, in percent. It returns "new" where nothing can
// be a hundred percent, and "gone" for a recovery that is no more.
func (f *Figure) Change(was, will *Report) string {
	before := f.value(was)
	after := f.value(will)
	switch {
	case f.Text(will) == "-":
		return "gone"
	case before == 0:
		return "new"
	}
	return fmt.Sprintf("%+.1f%%", 100*float64(after-before)/float64(before))
}

// AttemptsText returns the attempts under the policy as a table for people.
func AttemptsText(p *backlog.Policy, list []Attempt) string {
	rows := []string{"ATTEMPT\tAFTER\tDELAY"}
	least, most := p.Wait(1)
	drawn := least != most
	if drawn {
		rows[0] += "\tDRAWN FROM"
	}
	for _, a := range list {
		row := fmt.Sprintf("%d\t%v\t%v", a.N, a.At, a.Delay)
		if drawn && a.N > 1 {
			row += fmt.Sprintf("\t%v to %v", a.Least, a.Most)
		}
		rows = append(rows, row)
	}
	text := inspect.Columns(rows)
	if p.GivenUp(len(list)) {
		text += fmt.Sprintf("The record is given up after attempt %d.\n", len(list))
	}
	return text
}

// Text returns the life under the policy as a table for people. complete says whether its
// simulation came to the end.
func (l Life) Text(policy string, complete bool) string {
	rows := inspect.Grid{"TIER\tAGE\tTICKS\tATTEMPTS"}
	from := time.Duration(0)
	for _, t := range l.ByTier {
		rows.Add("%s\t%s\t%s\t%d", inspect.Shown(t.Tier.Name), inspect.Ages(from, t.Tier.MaxAge), inspect.Often(t.Tier), t.Attempts)
		from = t.Tier.MaxAge
	}
	text := fmt.Sprintf("A record inserted at %s that never succeeds, policy %s:\n\n%s", inspect.When(l.Inserted), policy, inspect.Columns(rows))
	switch {
	case l.Total == 0 && complete:
		text += "\nNo attempt.\n"
	case l.Total > 0:
		text += fmt.Sprintf("\n%s, the first at %s, the last at %s.\n", inspect.Plural(l.Total, "attempt"), inspect.When(l.First), inspect.When(l.Last))
	}
	switch {
	case !complete:
		text += "What comes later was not counted.\n"
	case l.GivenUp:
		text += "After the last it is given up.\n"
	default:
		text += fmt.Sprintf("After %s it is older than every tier and not tried any more.\n", inspect.When(l.Expires))
	}
	return text + l.rareTicks()
}

// rareTicks returns a warning for people about the tiers that may not tick while a record has their ages: how many
// attempts there are depends on when a record is inserted.
func (l Life) rareTicks() (text string) {
	from := time.Duration(0)
	for _, t := range l.ByTier {
		if t.Tier.MinInterval() > t.Tier.MaxAge-from {
			text += fmt.Sprintf("The tier %s ticks %s, but a record has its ages for %s only: a record inserted at another time may get one attempt fewer or more.\n",
				inspect.Shown(t.Tier.Name), inspect.Often(t.Tier), tiers.FormatDuration(t.Tier.MaxAge-from))
		}
		from = t.Tier.MaxAge
	}
	return text
}

// RefreshText returns the attempts of a record of the policy refresh as a table for people.
func RefreshText(list []RefreshAttempt) string {
	rows := inspect.Grid{"N\tATTEMPT_NO\tSTART\tDEADLINE_AT\tREFRESH_AT\tEND\tNEXT_REFRESH_AT"}
	disabled := ""
	for _, a := range list {
		rows.Add("%d\t%d\t%v\t%v\t%v\t%v\t%v", a.N, a.AttemptNo, a.Start, a.Deadline, a.Planned, a.End, a.Next)
		if a.Disabled {
			disabled = fmt.Sprintf("The record is disabled at %v: %s\n", a.End, inspect.Shown(a.Reason))
		}
	}
	return inspect.Columns(rows) + disabled
}

// ResultsText returns the results for people: their figures side by side, what passes did if the
// results have ticks, and sparklines.
func ResultsText(all []Result) string {
	text := figuresText(all)
	for _, r := range all {
		text += r.passesText()
	}
	for _, r := range all {
		if lines := r.Sparklines(); lines != "" {
			text += fmt.Sprintf("\n%s: %s", inspect.Shown(r.Name), lines)
		}
	}
	return text
}

// figuresText returns a table of the figures, a line per result.
func figuresText(all []Result) string {
	lines := []string{"POLICY"}
	for _, r := range all {
		lines = append(lines, inspect.Shown(r.Name))
	}
	legend := ""
	for _, f := range Figures(all) {
		for i, cell := range append([]string{f.Title}, f.Cells(all)...) {
			lines[i] += "\t" + cell
			if strings.HasSuffix(cell, "*") {
				legend = "\n* the best of the column\n"
			}
		}
	}
	return inspect.Columns(lines) + legend
}

// passesText returns a table of what the passes of each tier do, and one of when records die. It
// returns "" if the result has no ticks.
func (r Result) passesText() string {
	if r.Ticks == nil {
		return ""
	}
	name := inspect.Shown(r.Name)
	rows := inspect.Grid{"TIER\tPASSES\tCALLS\tMOST IN ONE"}
	for _, t := range r.Schedule.Tiers() {
		passes := 0
		calls := 0
		most := 0
		for _, tick := range r.Ticks {
			if tick.Tier == t.Name {
				passes++
				calls += tick.Attempts
				most = max(most, tick.Attempts)
			}
		}
		rows.Add("%s\t%d\t%d\t%d", inspect.Shown(t.Name), passes, calls, most)
	}
	text := fmt.Sprintf("\n%s: passes that find something\n%s", name, inspect.Columns(rows))
	if r.Dead == 0 {
		return text
	}
	rows = inspect.Grid{"BY\tRECORDS"}
	series := downsample(r.Series, 12)
	for i, b := range series {
		if b.Dead > 0 {
			rows.Add("%s\t%d", inspect.When(endOf(series, i, r.To)), b.Dead)
		}
	}
	return text + fmt.Sprintf("\n%s: too old, expired or given up\n%s", name, inspect.Columns(rows))
}

// DiffText returns the figures in which two results differ, as a table for people.
func DiffText(was, will Result) string {
	list := Changed(was, will)
	if len(list) == 0 {
		return "Nothing changes.\n"
	}
	var rows inspect.Grid
	rows.Add("FIGURE\t%s\t%s\tCHANGE", inspect.Shown(strings.ToUpper(was.Name)), inspect.Shown(strings.ToUpper(will.Name)))
	for _, f := range list {
		rows.Add("%s\t%s\t%s\t%s", f.Name, f.Text(was.Report), f.Text(will.Report), f.Change(was.Report, will.Report))
	}
	return inspect.Columns(rows)
}

// A Diff has the figures in which two results differ, for JSON.
type Diff struct {
	Policies [2]string `json:"policies"`
	Seed     uint64    `json:"seed"`
	Complete bool      `json:"complete"` // false: one simulation was stopped
	Changes  []Change  `json:"changes"`
}

// A Change is a figure that differs.
type Change struct {
	Figure string      `json:"figure"`
	Was    json.Number `json:"was"`
	Will   json.Number `json:"will"`
}

// NewDiff compares two results.
func NewDiff(was, will Result) Diff {
	d := Diff{
		Policies: [2]string{was.Name, will.Name},
		Seed:     was.Seed,
		Complete: was.Complete && will.Complete,
		Changes:  []Change{},
	}
	for _, f := range Changed(was, will) {
		d.Changes = append(d.Changes, Change{Figure: f.Key, Was: f.Number(was.Report), Will: f.Number(will.Report)})
	}
	return d
}

// WriteSeries writes CSV: a header, and a line for each bucket of each result.
func WriteSeries(out io.Writer, all []Result) error {
	rows := [][]string{{"policy", "at", "attempts", "failed", "dead", "pending", "pending_max"}}
	for _, r := range all {
		for _, b := range r.Series {
			row := []string{r.Name, b.At.Format(time.RFC3339)}
			for _, n := range []int{b.Attempts, b.Failed, b.Dead, b.Pending, b.MaxPending} {
				row = append(row, strconv.Itoa(n))
			}
			rows = append(rows, row)
		}
	}
	return csv.NewWriter(out).WriteAll(rows)
}
