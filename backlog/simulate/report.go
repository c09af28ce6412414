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

	// Recovery is how long after the end of an outage those that were pending
	// at that moment succeeded, the last outage if there were several. Lost
	// is how many of those that could have succeeded were pending in one and
	// died.
	Recovery  Recovery `json:"recovery_seconds"`
	Recovered int      `json:"recovered"` // how many Recovery is about
	Lost      int      `json:"lost"`

	PeakPerMinute int      `json:"peak_per_minute"`      // attempts that begin in one minute of the clock, at most
	LongestPass   Span     `json:"longest_pass_seconds"` // from its tick to its end
	SkippedTicks  int      `json:"skipped_ticks"`        // of tiers whose last pass still ran
	Complete      bool     `json:"complete"`             // it was not stopped
	Series        []Bucket `json:"series"`
	Ticks         []Tick   `json:"ticks,omitzero"` // in their order; nil unless asked for
}

// A Recovery is how long each record took, the shortest first.
type Recovery []time.Duration

// MarshalJSON writes how long half of them took at most, nearly all, and all.
func (r Recovery) MarshalJSON() ([]byte, error) {
	return fmt.Appendf(nil, `{"p50":%s,"p95":%s,"max":%s}`, Span(r.Quantile(0.5)).Seconds(), Span(r.Quantile(0.95)).Seconds(), Span(r.Quantile(1)).Seconds()), nil
}

// A Tick is one that started a pass with attempts, whenever these begin.
type Tick struct {
	At       time.Time `json:"at"`
	Tier     string    `json:"tier"`
	Attempts int       `json:"attempts"`
}

// A Bucket is what happened in (At, At + the width of a bucket].
type Bucket struct {
	At       time.Time `json:"at"`
	Attempts int       `json:"attempts"`
	Failed   int       `json:"failed"`
	Dead     int       `json:"dead"`        // records given up or past their time
	Pending  int       `json:"pending"`     // at the end of it
	Most     int       `json:"pending_max"` // pending at any time in it
}

// finish works out what is known only when all has happened.
func (x *run) finish() {
	r := x.report
	r.Pending = r.Records - r.Succeeded - r.Dead
	for i := range r.Series {
		r.Series[i].At = x.w.From.Add(time.Duration(i) * x.Bucket)
	}
	now := 0
	for i, m := range x.minutes {
		b := &r.Series[x.bucket(x.w.From.Add(time.Duration(i)*time.Minute))]
		now += int(m.come)
		b.Most = max(b.Most, now)
		now -= int(m.gone)
		b.Pending = now
		r.PeakPerMinute = max(r.PeakPerMinute, int(m.calls))
	}
	slices.Sort(r.Recovery)
	r.Recovered = len(r.Recovery)
	if x.Ticks {
		r.Ticks = slices.AppendSeq([]Tick{}, maps.Values(x.ticks))
		slices.SortFunc(r.Ticks, func(a, b Tick) int { return a.At.Compare(b.At) })
	}
}

// Quantile returns how long that share of the records waited at most, zero if there are none.
func (r Recovery) Quantile(q float64) time.Duration {
	n := len(r)
	if n == 0 {
		return 0
	}
	return r[min(max(0, int(math.Ceil(q*float64(n)))-1), n-1)]
}

// bucketOf returns the width of the buckets of a series: about a hundred, of a
// length that people know.
func bucketOf(length time.Duration) time.Duration {
	const hour = time.Hour
	for _, w := range []time.Duration{time.Minute, 5 * time.Minute, 15 * time.Minute, hour, 3 * hour, 6 * hour, 24 * hour, 7 * 24 * hour} {
		if length <= 150*w {
			return w
		}
	}
	return 30 * 24 * hour
}

// mostMarks is how many marks fit into a line of a terminal.
const mostMarks = 68

// Marks draws calls, pending and dead records as lines of blocks below a line
// that tells their scale. It returns "" for a series of one bucket.
func (r *Result) Marks() string {
	series := condensed(r.Series, mostMarks)
	if len(series) < 2 {
		return ""
	}
	width := series[1].At.Sub(series[0].At)
	rows := []struct {
		name, what string
		value      func(Bucket) int
	}{
		{"calls", "calls", func(b Bucket) int { return b.Attempts }},
		{"pending", "records pending", func(b Bucket) int { return b.Most }},
		{"dead", "dead", func(b Bucket) int { return b.Dead }},
	}
	if r.Dead == 0 {
		rows = rows[:2]
	}
	var scale, lines strings.Builder
	for _, row := range rows {
		fmt.Fprintf(&scale, ", %d %s", greatest(series, row.value), row.what)
		drawn := series
		if last := series[len(series)-1].At; row.name == "calls" && r.To.Sub(last) < width {
			drawn = series[:len(series)-1] // a shorter time has fewer
		}
		fmt.Fprintf(&lines, "  %-7s  %s\n", row.name, blocks(drawn, row.value))
	}
	return fmt.Sprintf("%s a mark, at most%s\n%s", tiers.FormatDuration(width), scale.String()[1:], lines.String())
}

// condensed returns what is drawn of the series in fewer buckets, each of as many
// as it takes.
func condensed(series []Bucket, most int) (list []Bucket) {
	each := (len(series) + most - 1) / most
	for i, b := range series {
		if i%each == 0 {
			list = append(list, b)
			continue
		}
		sum := &list[len(list)-1]
		sum.Attempts, sum.Dead, sum.Most = sum.Attempts+b.Attempts, sum.Dead+b.Dead, max(sum.Most, b.Most)
	}
	return list
}

// endOf returns when the bucket ends, the last one of the series with the workload.
func endOf(series []Bucket, bucket int, last time.Time) time.Time {
	if bucket+1 < len(series) {
		return series[bucket+1].At
	}
	return last
}

// blocks draws a series as a line of blocks, the tallest for the greatest.
func blocks(series []Bucket, value func(Bucket) int) string {
	heights := []rune(" ▁▂▃▄▅▆▇█")
	most := max(1, greatest(series, value))
	var line strings.Builder
	for _, b := range series {
		line.WriteRune(heights[(max(0, value(b))*(len(heights)-1)+most-1)/most])
	}
	return strings.TrimRight(line.String(), " ")
}

func greatest(series []Bucket, value func(Bucket) int) (most int) {
	for _, b := range series {
		most = max(most, value(b))
	}
	return most
}

// A Candidate is a schedule and a policy that a workload is simulated with.
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

// Compare lets the workload happen to each candidate, one after the other. With
// an error it returns the results so far; the last may be incomplete.
func Compare(ctx context.Context, w *Workload, list []Candidate) (all []Result, err error) {
	for _, c := range list {
		if ctx.Err() != nil {
			return all, ctx.Err()
		}
		r, err := Run(ctx, w, c.Options)
		if r.Complete || r.Attempts > 0 {
			all = append(all, Result{c.Name, w.Seed, c.Schedule, w.To, r})
		}
		if err != nil {
			return all, err
		}
	}
	return all, nil
}

// A Figure is a number by which results are compared: the least is best.
type Figure struct {
	Title string // of its column
	Name  string // where it stands alone
	Key   string // in JSON
	value func(*Report) int64
	time  bool // the value is a time.Duration, in JSON seconds
	rare  bool // not worth a column where it is nothing

	// recovery: how soon records succeed that an outage held up. Without such
	// records it is no figure, and where some were lost it is no praise.
	recovery bool
}

var figures = []Figure{
	{Title: "CALLS", Name: "calls", Key: "attempts", value: func(r *Report) int64 { return int64(r.Attempts) }},
	{Title: "FAILED", Name: "calls that fail", Key: "failed", value: func(r *Report) int64 { return int64(r.Failed) }},
	{Title: "PEAK/MIN", Name: "calls in one minute, at most", Key: "peak_per_minute", value: func(r *Report) int64 { return int64(r.PeakPerMinute) }},
	{Title: "RECOVERY P50", Name: "recovery, half of them within", Key: "recovery_p50_seconds", value: recoveryWithin(0.5), time: true, recovery: true},
	{Title: "P95", Name: "recovery, 95% within", Key: "recovery_p95_seconds", value: recoveryWithin(0.95), time: true, recovery: true},
	{Title: "MAX", Name: "recovery, all within", Key: "recovery_max_seconds", value: recoveryWithin(1), time: true, recovery: true},
	{Title: "LOST", Name: "lost in an outage", Key: "lost", value: func(r *Report) int64 { return int64(r.Lost) }, rare: true},
	{Title: "LONGEST PASS", Name: "the longest pass", Key: "longest_pass_seconds", value: func(r *Report) int64 { return int64(r.LongestPass) }, time: true, rare: true},
	{Title: "TICKS SKIPPED", Name: "ticks skipped while a pass ran", Key: "skipped_ticks", value: func(r *Report) int64 { return int64(r.SkippedTicks) }, rare: true},
	{Title: "DEAD", Name: "dead", Key: "dead", value: func(r *Report) int64 { return int64(r.Dead) }},
	{Title: "PENDING", Name: "pending at the end", Key: "pending", value: func(r *Report) int64 { return int64(r.Pending) }},
}

func recoveryWithin(q float64) func(*Report) int64 {
	return func(r *Report) int64 { return int64(r.Recovery.Quantile(q)) }
}

// Figures returns the figures that are worth a column.
func Figures(all []Result) []Figure {
	return slices.DeleteFunc(slices.Clone(figures), func(f Figure) bool {
		return f.rare && !slices.ContainsFunc(all, func(r Result) bool { return f.value(r.Report) != 0 })
	})
}

// Changed returns the figures in which two results differ.
func Changed(was, will Result) []Figure {
	return slices.DeleteFunc(slices.Clone(figures), func(f Figure) bool { return f.value(was.Report) == f.value(will.Report) })
}

// Text returns the figure as people read it.
func (f *Figure) Text(r *Report) string {
	switch {
	case f.recovery && len(r.Recovery) == 0:
		return "-"
	case f.time:
		return Span(f.value(r)).String()
	}
	return strconv.FormatInt(f.value(r), 10)
}

// Number returns the figure for JSON.
func (f *Figure) Number(r *Report) json.Number {
	if f.time {
		return json.Number(Span(f.value(r)).Seconds())
	}
	return json.Number(strconv.FormatInt(f.value(r), 10))
}

// Cells returns the texts of a column. The best ones end in a star, unless all
// look alike or one result is incomplete.
func (f *Figure) Cells(all []Result) []string {
	cells := make([]string, len(all))
	least, best := int64(math.MaxInt64), ""
	for i, r := range all {
		cells[i] = f.Text(r.Report)
		if v := f.value(r.Report); f.mayWin(r.Report) && v < least {
			least, best = v, cells[i]
		}
	}
	part := slices.ContainsFunc(all, func(r Result) bool { return !r.Complete })
	if part || !slices.ContainsFunc(cells, func(c string) bool { return c != best }) {
		return cells
	}
	for i, r := range all {
		if cells[i] == best && f.mayWin(r.Report) {
			cells[i] += "*"
		}
	}
	return cells
}

// mayWin tells whether the value is one that can be praised.
func (f *Figure) mayWin(r *Report) bool {
	return !f.recovery || len(r.Recovery) > 0 && r.Lost == 0
}

// Change returns the difference in percent, or that the figure is new or gone.
func (f *Figure) Change(was, will *Report) string {
	a, b := f.value(was), f.value(will)
	switch {
	case f.Text(will) == "-":
		return "gone"
	case a != 0:
		return fmt.Sprintf("%+.1f%%", 100*float64(b-a)/float64(a))
	}
	return "new"
}

// AttemptsText returns the attempts under the policy for people.
func AttemptsText(p *backlog.Policy, list []Attempt) string {
	rows := []string{"ATTEMPT\tAFTER\tDELAY"}
	least, most := p.Wait(1)
	drawn := least != most // there is something to choose from
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

// Text returns the life under the policy for people. It is not complete where its
// simulation was stopped.
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
	return text
}

// RefreshText returns the attempts of a record of the policy refresh for people.
func RefreshText(list []Refreshed) string {
	rows, disabled := inspect.Grid{"N\tATTEMPT_NO\tSTART\tDEADLINE_AT\tREFRESH_AT\tEND\tNEXT_REFRESH_AT"}, ""
	for _, a := range list {
		rows.Add("%d\t%d\t%v\t%v\t%v\t%v\t%v", a.N, a.AttemptNo, a.Start, a.Deadline, a.Planned, a.End, a.Next)
		if a.Disabled {
			disabled = fmt.Sprintf("The record is disabled at %v: %s\n", a.End, inspect.Shown(a.Reason))
		}
	}
	return inspect.Columns(rows) + disabled
}

// ResultsText returns the results for people: their figures side by side, what passes did
// if ticks were asked for, and what happened in the course of time.
func ResultsText(all []Result) string {
	text := figuresText(all)
	for _, r := range all {
		text += r.passesText()
	}
	for _, r := range all {
		if marks := r.Marks(); marks != "" {
			text += fmt.Sprintf("\n%s: %s", inspect.Shown(r.Name), marks)
		}
	}
	return text
}

// figuresText compares the results by what they cost and what they bring.
func figuresText(all []Result) string {
	lines := []string{"POLICY"}
	for _, r := range all {
		lines = append(lines, inspect.Shown(r.Name))
	}
	stars := ""
	for _, f := range Figures(all) {
		for i, cell := range append([]string{f.Title}, f.Cells(all)...) {
			lines[i] += "\t" + cell
			if strings.HasSuffix(cell, "*") {
				stars = "\n* the best of the column\n"
			}
		}
	}
	return inspect.Columns(lines) + stars
}

// passesText tells what each tier does and when records die.
func (r Result) passesText() string {
	if r.Ticks == nil {
		return ""
	}
	name := inspect.Shown(r.Name)
	rows := inspect.Grid{"TIER\tPASSES\tCALLS\tMOST IN ONE"}
	for _, t := range r.Schedule.Tiers() {
		passes, calls, most := 0, 0, 0
		for _, x := range r.Ticks {
			if x.Tier == t.Name {
				passes, calls, most = passes+1, calls+x.Attempts, max(most, x.Attempts)
			}
		}
		rows.Add("%s\t%d\t%d\t%d", inspect.Shown(t.Name), passes, calls, most)
	}
	text := fmt.Sprintf("\n%s: passes that find something\n%s", name, inspect.Columns(rows))
	if r.Dead == 0 {
		return text
	}
	rows = inspect.Grid{"BY\tRECORDS"}
	series := condensed(r.Series, 12)
	for i, b := range series {
		if b.Dead > 0 {
			rows.Add("%s\t%d", inspect.When(endOf(series, i, r.To)), b.Dead)
		}
	}
	return text + fmt.Sprintf("\n%s: too old, expired or given up\n%s", name, inspect.Columns(rows))
}

// DiffText returns the figures in which two results differ, for people.
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

// A Diff is the figures in which two results differ, for programs.
type Diff struct {
	Policies [2]string `json:"policies"`
	Seed     uint64    `json:"seed"`
	Complete bool      `json:"complete"` // false: one was stopped
	Changes  []Change  `json:"changes"`
}

// A Change is one of a [Diff].
type Change struct {
	Figure string      `json:"figure"`
	Was    json.Number `json:"was"`
	Will   json.Number `json:"will"`
}

// NewDiff compares two results.
func NewDiff(was, will Result) Diff {
	d := Diff{[2]string{was.Name, will.Name}, was.Seed, was.Complete && will.Complete, []Change{}}
	for _, f := range Changed(was, will) {
		d.Changes = append(d.Changes, Change{f.Key, f.Number(was.Report), f.Number(will.Report)})
	}
	return d
}

// WriteSeries writes a line of CSV for each bucket of each result.
func WriteSeries(out io.Writer, all []Result) error {
	rows := [][]string{{"policy", "at", "attempts", "failed", "dead", "pending", "pending_max"}}
	for _, r := range all {
		for _, b := range r.Series {
			figures := strings.Fields(fmt.Sprintln(b.Attempts, b.Failed, b.Dead, b.Pending, b.Most))
			rows = append(rows, append([]string{r.Name, b.At.Format(time.RFC3339)}, figures...))
		}
	}
	return csv.NewWriter(out).WriteAll(rows)
}
