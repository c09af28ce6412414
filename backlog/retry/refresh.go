package retry

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"backlog/backlog"
	"backlog/backlog/inspect"
	"backlog/backlog/mapping"
	"backlog/backlog/pattern"
	"backlog/backlog/retry/recur"
	"backlog/tiers"
)

// Refresh are the settings of records that are processed again and again, with
// deadlines. Just one of RRule, Every and Schedule is given, or Expr, which says all
// but the columns in English.
type Refresh struct {
	RRule       mapping.Rule    `yaml:"rrule"`
	Every       time.Duration   `yaml:"every"` // multiples since 1970 UTC
	Schedule    string          `yaml:"schedule" words:"none"`
	Anchor      string          `yaml:"anchor" words:"day"` // of rules without DTSTART: midnight of each day
	Timeout     time.Duration   `yaml:"timeout"`            // of an attempt
	Intervals   []time.Duration `yaml:"intervals" want:"a list of durations such as [0, 1m, 5m]"`
	Align       bool            `yaml:"align"` // move retries that would meet the next occurrence there
	AfterLast   string          `yaml:"after_last" words:"disable wait"`
	GiveUpAfter time.Duration   `yaml:"give_up_after"` // since the first failure; 0: never
	Reason      string          `yaml:"reason"`        // of a disabled row; {attempts}, {error} and {failing_since} are replaced
	Expr        string          `yaml:"expr"`

	// Columns are the columns of mapping.RefreshColumns; without a name: the default one.
	Columns mapping.Names `yaml:"columns"`

	Zone   *time.Location // of times of day and floating rules; nil: UTC
	Emails bool           // the sentences say that the customer is told: on_dead is needed
}

// defaultIntervals are the waits after a failure.
var defaultIntervals = []time.Duration{0, time.Minute, 5 * time.Minute, 15 * time.Minute, 30 * time.Minute, time.Hour}

func newRefresh() *Refresh {
	r := &Refresh{Intervals: defaultIntervals, Align: true, AfterLast: "disable"}
	for _, name := range mapping.RefreshColumns {
		r.Columns = append(r.Columns, [2]string{"", name})
	}
	return r
}

// Keeps implements [Settings].
func (r *Refresh) Keeps() mapping.Policy {
	p := mapping.Policy{Name: "refresh"}
	for _, c := range r.Columns {
		p.Columns = append(p.Columns, [2]string{cmp.Or(c[0], c[1]), c[1]})
	}
	return p
}

// In sets the zone, for the time zone of a configuration that is read after its policy.
func (r *Refresh) In(zone *time.Location) { r.Zone = zone }

// Limit is what an attempt may take.
func (r *Refresh) Limit() time.Duration { return r.Timeout }

// TellsCustomer reports whether the sentences say that the customer is told when it
// gives up.
func (r *Refresh) TellsCustomer() bool { return r.Emails }

// HandsOver says that the table must have the column of UIDs, by which the outcome of
// a record that was handed over is known.
func (r *Refresh) HandsOver() {
	uid := &r.Columns[mapping.AttemptUID]
	uid[0] = cmp.Or(uid[0], uid[1])
}

// Problem returns what is wrong with the rule in the zone, and the key.
func (r *Refresh) Problem() (key string, err error) {
	if r.RRule.Text != "" {
		_, err = recur.Parse(r.RRule.Text, r.Zone)
	}
	return "rrule", err
}

// MarshalJSON writes the settings, sentences as what they stand for, without columns.
// Durations are seconds.
func (r *Refresh) MarshalJSON() ([]byte, error) {
	intervals := make([]float64, len(r.Intervals))
	for i, d := range r.Intervals {
		intervals[i] = d.Seconds()
	}
	return json.Marshal(struct {
		Name        string    `json:"name"`
		RRule       string    `json:"rrule,omitempty"`
		RRuleColumn string    `json:"rrule_column,omitempty"`
		Every       float64   `json:"every_seconds,omitempty"`
		Schedule    string    `json:"schedule,omitempty"`
		Timeout     float64   `json:"timeout_seconds"`
		Intervals   []float64 `json:"intervals_seconds"`
		Align       bool      `json:"align"`
		AfterLast   string    `json:"after_last"`
		GiveUpAfter float64   `json:"give_up_after_seconds,omitempty"`
		Reason      string    `json:"reason,omitempty"`
	}{"refresh", r.RRule.Text, r.RRule.Column, r.Every.Seconds(), r.Schedule, r.Timeout.Seconds(), intervals, r.Align, r.AfterLast, r.GiveUpAfter.Seconds(), r.Reason})
}

// Check implements [Settings]. Sentences become the settings they stand for.
func (r *Refresh) Check(fail func(field, problem string)) {
	if r.Expr != "" && !r.readExpr(fail) {
		return
	}
	given := slices.DeleteFunc([]bool{r.RRule != mapping.Rule{}, r.Every != 0, r.Schedule != ""}, func(is bool) bool { return !is })
	switch {
	case len(given) == 0:
		fail("every", "missing, and so are rrule and schedule; say when, such as every: 2h")
	case len(given) > 1:
		fail("every", "rrule, every and schedule each say when; keep one of them")
	}
	if r.Every < 0 {
		fail("every", "must be more than 0")
	}
	if text := r.RRule.Text; text != "" {
		if key, err := r.Problem(); err != nil {
			fail(key, err.Error())
		} else if r.Anchor != "" && strings.Contains(strings.ToUpper(text), "DTSTART") {
			fail("anchor", "the rule has a DTSTART of its own; remove one of them")
		}
	}
	if r.Timeout <= 0 {
		fail("timeout", "missing or 0; say how long an attempt may take, such as timeout: 1h")
	}
	for _, word := range braced().FindAllString(r.Reason, -1) {
		if !slices.Contains([]string{"{attempts}", "{error}", "{failing_since}"}, word) {
			fail("reason", word+" is unknown; known here: {attempts}, {error}, {failing_since}")
		}
	}
	checkIntervals(r.Intervals, fail)
}

// braced finds what looks like a word to be replaced.
var braced = pattern.Lazily(`\{\w*\}`)

// readExpr replaces the settings by what the sentences say, if they are understood.
func (r *Refresh) readExpr(fail func(field, problem string)) (ok bool) {
	said, err := parseEnglish(r.Expr)
	switch plain := newRefresh(); {
	case r.RRule != plain.RRule, r.Every != 0, r.Schedule != "", r.Timeout != 0, !slices.Equal(r.Intervals, plain.Intervals), !r.Align, r.AfterLast != plain.AfterLast,
		r.GiveUpAfter != 0, r.Reason != "":
		fail("expr", "says all but columns and anchor; remove the other settings, or expr")
	case err != nil:
		fail("expr", err.Error())
	default:
		said.Anchor, said.Columns, said.Zone = r.Anchor, r.Columns, r.Zone
		*r = *said
		return true
	}
	return false
}

// A Refresher moves records that are processed again and again from state to state.
// Its methods are pure and may be called concurrently. The policy that [Policy] makes of a
// [Refresh] has one.
type Refresher struct {
	settings Refresh
	rule     *recur.Rule  // of all rows
	rules    *recur.Rules // of each row; nil: all have one
}

var _ backlog.Refresher = (*Refresher)(nil)

// RefresherOf returns the Refresher of a policy, nil if it has none. The policy may be nil.
func RefresherOf(p *backlog.Policy) *Refresher {
	if p == nil {
		return nil
	}
	r, _ := p.Refresher.(*Refresher)
	return r
}

// refresher is for settings that were checked.
func (r *Refresh) refresher() *Refresher {
	p := &Refresher{settings: *r}
	switch {
	case r.RRule.Column != "":
		p.rules = recur.NewRules(r.Zone)
	case r.RRule.Text != "":
		p.rule, _ = recur.Parse(r.RRule.Text, r.Zone)
	case r.Every > 0:
		p.rule = recur.Every(r.Every)
	}
	return p
}

// Settings returns what the refresher was made of.
func (p *Refresher) Settings() Refresh { return p.settings }

// Rule returns when the row recurs; nil: never. The error says what is wrong with the
// row's own rule.
func (p *Refresher) Rule(s backlog.Memory) (*recur.Rule, error) {
	if p.rules == nil || s.Rule == "" {
		return p.rule, nil
	}
	rule, err := p.rules.Parse(s.Rule)
	if err != nil {
		return nil, fmt.Errorf("column %s: %w", p.settings.RRule.Column, err)
	}
	return rule, nil
}

// An Action is what happens to a record, for [Refresher.Apply].
type Action string

const (
	Start   Action = "start"   // of an attempt; the caller gives the result a UID
	Success Action = "success" // of the running attempt
	Failure Action = "failure" // likewise, its timeout included
	Reject  Action = "reject"  // likewise, for good
	Save    Action = "save"    // by its owner: it starts anew, now
)

// Apply returns what the action leaves of the state, and whether no further start is
// planned. It is for programs that keep their rows themselves.
func (p *Refresher) Apply(s backlog.Memory, a Action, now time.Time) (next backlog.Memory, final bool, err error) {
	switch a {
	case Start:
		next, err = p.Start(s, now, "")
		return next, false, err
	case Save: // it starts at once, and whatever runs is superseded
		return backlog.Memory{Next: now, Started: s.Started, Rule: s.Rule}, false, nil
	}
	o, ok := map[Action]backlog.Outcome{Success: backlog.Succeeded, Failure: backlog.Errored, Reject: backlog.Rejected}[a]
	if !ok {
		return s, false, fmt.Errorf("no action %q; there are start, success, failure, reject and save", a)
	}
	next, final = p.End(s, o, now, "", nil)
	return next, final, nil
}

// Start implements [backlog.Refresher].
func (p *Refresher) Start(s backlog.Memory, now time.Time, uid string) (backlog.Memory, error) {
	rule, err := p.Rule(s)
	if err != nil {
		return s, err
	}
	s.UID, s.Started, s.Deadline = uid, now, now.Add(p.settings.Timeout)
	s.AttemptNo = max(0, s.AttemptNo) + 1
	at, _ := rule.First(s.Deadline)
	s.Next = cmp.Or(at, s.Deadline)
	return s, nil
}

// End implements [backlog.Refresher].
func (p *Refresher) End(s backlog.Memory, o backlog.Outcome, now time.Time, text string, began *backlog.Memory) (backlog.Memory, bool) {
	saved := !s.Next.IsZero() && s.Next.Before(s.Deadline) // during the attempt: a start writes no time before its deadline
	s.UID, s.Deadline = "", time.Time{}
	if saved && o == backlog.Succeeded {
		s.FailingSince = time.Time{}
	}
	switch {
	case saved:
		return s, false
	case o == backlog.Skipped:
		if began != nil {
			s.Next, s.AttemptNo = began.Next, began.AttemptNo
		}
		return s, false
	}
	rule, err := p.Rule(s)
	if o == backlog.Succeeded && err == nil {
		s.AttemptNo, s.FailingSince, s.Reason = 0, time.Time{}, ""
		s.Next, _ = rule.Next(now)
		return s, s.Next.IsZero()
	}
	n := max(1, s.AttemptNo)
	if s.FailingSince.IsZero() {
		s.FailingSince = now
	}
	planned, recurs := rule.Next(now)
	after := p.settings.GiveUpAfter
	switch {
	case err != nil: // it can never be started again
		return p.disable(s, err.Error()), true
	case o == backlog.Rejected:
		return p.disable(s, cmp.Or(text, "rejected")), true
	case after > 0 && now.Sub(s.FailingSince) >= after:
		return p.disable(s, p.reason(s, n, text)), true
	case n <= len(p.settings.Intervals):
		s.Next = p.retry(now.Add(p.settings.Intervals[n-1]), planned, recurs)
		return s, false
	case p.settings.AfterLast == "wait" && recurs:
		s.AttemptNo, s.Next = 0, planned
		return s, false
	}
	return p.disable(s, p.reason(s, n, text)), true
}

// retry returns the time of a retry that is due at a time, with the next occurrence
// planned if there is one.
func (p *Refresher) retry(at, planned time.Time, recurs bool) time.Time {
	late := at.After(planned) || p.settings.Align && at.Add(p.settings.Timeout).After(planned)
	if recurs && late {
		return planned
	}
	return at
}

func (p *Refresher) disable(s backlog.Memory, reason string) backlog.Memory {
	s.Next, s.Disabled, s.Reason = time.Time{}, true, reason
	return s
}

// reason returns the sentence for a row that is disabled after n attempts.
func (p *Refresher) reason(s backlog.Memory, n int, text string) string {
	sentence := "Cannot refresh after {attempts} attempts"
	if p.settings.GiveUpAfter > 0 {
		sentence = "No success since {failing_since}"
	}
	return strings.NewReplacer("{attempts}", strconv.Itoa(n), "{error}", text, "{failing_since}", s.FailingSince.UTC().Format(time.RFC3339)).
		Replace(cmp.Or(p.settings.Reason, sentence))
}

// Columns returns the columns in which the policy keeps its state, those that the table
// must have by their names.
func (r *Refresh) PolicyColumns() *mapping.PolicyColumns {
	names := slices.Clone(r.Columns)
	for i := range names {
		if i <= mapping.AttemptNo || i == mapping.FailingSince && r.GiveUpAfter > 0 {
			names[i][0] = cmp.Or(names[i][0], names[i][1])
		}
	}
	return &mapping.PolicyColumns{Refresh: names, Rule: r.RRule.Column}
}

// CheckSchedule finds settings that have no effect under the schedule.
func (p *Refresher) CheckSchedule(l *inspect.Findings, s *tiers.Schedule, now time.Time) {
	tick := s.MinInterval()
	set := p.settings
	rule, _ := p.Rule(backlog.Memory{})
	gap := inspect.Recurrence(rule.Next).ShortestGap(now)
	short := slices.IndexFunc(set.Intervals, func(d time.Duration) bool { return d > 0 && d < tick })
	switch {
	case gap > 0 && set.Timeout >= gap && set.Align:
		l.AddWarning("policy", "shorten timeout, or write align: false", "timeout is %s and occurrences are %s apart: every retry could end after the next one and is moved there, so that intervals have no effect",
			tiers.FormatDuration(set.Timeout), tiers.FormatDuration(gap))
	case short >= 0:
		l.AddWarning("policy", "let the tier tick more often, or wait longer", "the interval %s is shorter than the %s from one look to the next",
			tiers.FormatDuration(set.Intervals[short]), tiers.FormatDuration(tick))
	default:
		l.AddGood("policy", "refresh")
	}
}
