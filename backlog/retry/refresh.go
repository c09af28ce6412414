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

// Refresh has the settings of the policy refresh: records are processed again and again, and each
// attempt has a deadline. Exactly one of RRule, Every and Schedule says when. Expr may say so
// instead, together with all other settings but Anchor and Columns.
type Refresh struct {
	RRule       mapping.Rule    `yaml:"rrule"`
	Every       time.Duration   `yaml:"every"` // at multiples since 1970 UTC
	Schedule    string          `yaml:"schedule" words:"none"`
	Anchor      string          `yaml:"anchor" words:"day"` // where rules without DTSTART begin: midnight of each day
	Timeout     time.Duration   `yaml:"timeout"`            // of an attempt
	Intervals   []time.Duration `yaml:"intervals" want:"a list of durations such as [0, 1m, 5m]"`
	Align       bool            `yaml:"align"` // move a retry that could end after the next occurrence there
	AfterLast   string          `yaml:"after_last" words:"disable wait"`
	GiveUpAfter time.Duration   `yaml:"give_up_after"` // since the first failure; 0: never
	Reason      string          `yaml:"reason"`        // for a disabled row; {attempts}, {error} and {failing_since} are replaced
	Expr        string          `yaml:"expr"`          // sentences in English

	// Columns has the names of mapping.RefreshColumns, in that order; "": the default name.
	Columns mapping.Names `yaml:"columns"`

	Zone           *time.Location // of times of day and of rules without a zone; nil: UTC
	EmailsCustomer bool           // Expr says that the customer gets an email when the policy gives up
}

// defaultIntervals are the waits after each failure, for policies that have a list of them.
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

// SetZone sets Zone. The configuration calls it when it knows its time zone, after it has read the
// policy.
func (r *Refresh) SetZone(zone *time.Location) { r.Zone = zone }

// AttemptTimeout returns how long an attempt may take.
func (r *Refresh) AttemptTimeout() time.Duration { return r.Timeout }

// NotifiesCustomer reports whether the customer gets an email when the policy gives up, so that the
// configuration needs an on_dead.
func (r *Refresh) NotifiesCustomer() bool { return r.EmailsCustomer }

// RequireUIDs makes the table need the column of UIDs, by which the outcome of a record that was
// handed over is recognized.
func (r *Refresh) RequireUIDs() {
	uid := &r.Columns[mapping.AttemptUID]
	uid[0] = cmp.Or(uid[0], uid[1])
}

// CheckRule returns what is wrong with RRule in Zone, and the key of that setting.
func (r *Refresh) CheckRule() (key string, err error) {
	if r.RRule.Text != "" {
		_, err = recur.Parse(r.RRule.Text, r.Zone)
	}
	return "rrule", err
}

// MarshalJSON returns the settings without columns. Those that Expr stands for are written instead
// of it, once [Refresh.Check] has read it. Durations are in seconds.
func (r *Refresh) MarshalJSON() ([]byte, error) {
	intervals := make([]float64, len(r.Intervals))
	for i, d := range r.Intervals {
		intervals[i] = d.Seconds()
	}
	type settings struct {
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
	}
	return json.Marshal(settings{
		Name:        "refresh",
		RRule:       r.RRule.Text,
		RRuleColumn: r.RRule.Column,
		Every:       r.Every.Seconds(),
		Schedule:    r.Schedule,
		Timeout:     r.Timeout.Seconds(),
		Intervals:   intervals,
		Align:       r.Align,
		AfterLast:   r.AfterLast,
		GiveUpAfter: r.GiveUpAfter.Seconds(),
		Reason:      r.Reason,
	})
}

// Check implements [Settings]. It replaces the settings by those that Expr stands for.
func (r *Refresh) Check(fail func(field, problem string)) {
	if r.Expr != "" && !r.readExpr(fail) {
		return
	}
	settings := 0 // that say when
	for _, isGiven := range []bool{r.RRule != mapping.Rule{}, r.Every != 0, r.Schedule != ""} {
		if isGiven {
			settings++
		}
	}
	switch {
	case settings == 0:
		fail("every", "missing, and so are rrule and schedule; say when, such as every: 2h")
	case settings > 1:
		fail("every", "rrule, every and schedule each say when; keep one of them")
	}
	if r.Every < 0 {
		fail("every", "must be more than 0")
	}
	if text := r.RRule.Text; text != "" {
		if key, err := r.CheckRule(); err != nil {
			fail(key, err.Error())
		} else if r.Anchor != "" && strings.Contains(strings.ToUpper(text), "DTSTART") {
			fail("anchor", "the rule has a DTSTART of its own; remove one of them")
		}
	}
	if r.Timeout <= 0 {
		fail("timeout", "missing or 0; say how long an attempt may take, such as timeout: 1h")
	}
	for _, word := range placeholders().FindAllString(r.Reason, -1) {
		if !slices.Contains([]string{"{attempts}", "{error}", "{failing_since}"}, word) {
			fail("reason", word+" is unknown; known here: {attempts}, {error}, {failing_since}")
		}
	}
	checkIntervals(r.Intervals, fail)
}

// placeholders finds what looks like a word to be replaced.
var placeholders = pattern.Lazily(`\{\w*\}`)

// readExpr replaces the settings by those that Expr stands for. It reports whether it could.
func (r *Refresh) readExpr(fail func(field, problem string)) (ok bool) {
	parsed, err := parseEnglish(r.Expr)
	switch {
	case !r.hasDefaults():
		fail("expr", "says all but columns and anchor; remove the other settings, or expr")
	case err != nil:
		fail("expr", err.Error())
	default:
		parsed.Anchor = r.Anchor
		parsed.Columns = r.Columns
		parsed.Zone = r.Zone
		*r = *parsed
		return true
	}
	return false
}

// hasDefaults reports whether all settings that Expr may say have their defaults.
func (r *Refresh) hasDefaults() bool {
	defaults := newRefresh()
	return r.RRule == defaults.RRule &&
		r.Every == 0 &&
		r.Schedule == "" &&
		r.Timeout == 0 &&
		slices.Equal(r.Intervals, defaults.Intervals) &&
		r.Align &&
		r.AfterLast == defaults.AfterLast &&
		r.GiveUpAfter == 0 &&
		r.Reason == ""
}

// A Refresher computes what a row under the policy refresh remembers after the start and the end of
// an attempt. It belongs to the policy that [Policy] makes of a [Refresh]. Its methods are pure and
// may be called concurrently.
type Refresher struct {
	settings Refresh
	rule     *recur.Rule  // of all rows; nil: they never recur by themselves
	rules    *recur.Rules // of each row; nil: all rows have the same
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

// refresher returns the Refresher of settings that were checked.
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

// Settings returns the settings the Refresher was made of.
func (p *Refresher) Settings() Refresh { return p.settings }

// Rule returns the rule by which a row recurs; nil: it does not. An error says what is wrong with
// the row's own rule.
func (p *Refresher) Rule(m backlog.Memory) (*recur.Rule, error) {
	if p.rules == nil || m.Rule == "" {
		return p.rule, nil
	}
	rule, err := p.rules.Parse(m.Rule)
	if err != nil {
		return nil, fmt.Errorf("column %s: %w", p.settings.RRule.Column, err)
	}
	return rule, nil
}

// An Action is what happens to a record, for [Refresher.Apply].
type Action string

const (
	Start   Action = "start"   // an attempt starts; the caller sets the UID of the result
	Success Action = "success" // the running attempt succeeds
	Failure Action = "failure" // the running attempt fails or times out
	Reject  Action = "reject"  // the running attempt fails for good
	Save    Action = "save"    // the owner saves the row: it starts anew, now
)

// Apply returns what the row remembers after the action, and whether no further start is planned.
// It is for programs that write their rows themselves.
func (p *Refresher) Apply(m backlog.Memory, a Action, now time.Time) (next backlog.Memory, final bool, err error) {
	var outcome backlog.Outcome
	switch a {
	case Start:
		next, err = p.Start(m, now, "")
		return next, false, err
	case Save: // it starts at once and supersedes a running attempt
		return backlog.Memory{Next: now, Started: m.Started, Rule: m.Rule}, false, nil
	case Success:
		outcome = backlog.Succeeded
	case Failure:
		outcome = backlog.Errored
	case Reject:
		outcome = backlog.Rejected
	default:
		return m, false, fmt.Errorf("no action %q; there are start, success, failure, reject and save", a)
	}
	next, final = p.End(m, outcome, now, "", nil)
	return next, final, nil
}

// Start implements [backlog.Refresher]. While the attempt runs, the row's next time is the first
// occurrence at or after the deadline.
func (p *Refresher) Start(m backlog.Memory, now time.Time, uid string) (backlog.Memory, error) {
	rule, err := p.Rule(m)
	if err != nil {
		return m, err
	}
	m.UID = uid
	m.Started = now
	m.Deadline = now.Add(p.settings.Timeout)
	m.AttemptNo = max(0, m.AttemptNo) + 1
	occurrence, _ := rule.First(m.Deadline)
	m.Next = cmp.Or(occurrence, m.Deadline)
	return m, nil
}

// End implements [backlog.Refresher].
func (p *Refresher) End(m backlog.Memory, o backlog.Outcome, now time.Time, text string, before *backlog.Memory) (backlog.Memory, bool) {
	// A start plans nothing before its deadline, so the row was saved during the attempt.
	saved := !m.Next.IsZero() && m.Next.Before(m.Deadline)
	m.UID = ""
	m.Deadline = time.Time{}
	if saved && o == backlog.Succeeded {
		m.FailingSince = time.Time{}
	}
	switch {
	case saved:
		return m, false
	case o == backlog.Skipped:
		if before != nil {
			m.Next = before.Next
			m.AttemptNo = before.AttemptNo
		}
		return m, false
	}
	rule, err := p.Rule(m)
	if o == backlog.Succeeded && err == nil {
		m.AttemptNo = 0
		m.FailingSince = time.Time{}
		m.Reason = ""
		m.Next, _ = rule.Next(now)
		return m, m.Next.IsZero()
	}
	if m.FailingSince.IsZero() {
		m.FailingSince = now
	}
	attempts := max(1, m.AttemptNo)
	occurrence, recurs := rule.Next(now)
	giveUpAfter := p.settings.GiveUpAfter
	switch {
	case err != nil: // it can never be started again
		return disabled(m, err.Error()), true
	case o == backlog.Rejected:
		return disabled(m, cmp.Or(text, "rejected")), true
	case giveUpAfter > 0 && now.Sub(m.FailingSince) >= giveUpAfter:
		return disabled(m, p.reason(m, attempts, text)), true
	case attempts <= len(p.settings.Intervals):
		m.Next = now.Add(p.settings.Intervals[attempts-1])
		if recurs {
			m.Next = p.aligned(m.Next, occurrence)
		}
		return m, false
	case p.settings.AfterLast == "wait" && recurs:
		m.AttemptNo = 0
		m.Next = occurrence
		return m, false
	}
	return disabled(m, p.reason(m, attempts, text)), true
}

// aligned returns the time of a retry, or the time of the next occurrence if the retry would start
// after it or, with Align, could end after it.
func (p *Refresher) aligned(retry, occurrence time.Time) time.Time {
	latestStart := occurrence
	if p.settings.Align {
		latestStart = occurrence.Add(-p.settings.Timeout)
	}
	if retry.After(latestStart) {
		return occurrence
	}
	return retry
}

// disabled returns the memory of a row that is not started again.
func disabled(m backlog.Memory, reason string) backlog.Memory {
	m.Next = time.Time{}
	m.Disabled = true
	m.Reason = reason
	return m
}

// reason returns the sentence for a row that is disabled after so many attempts. text is the last
// error's.
func (p *Refresher) reason(m backlog.Memory, attempts int, text string) string {
	sentence := "Cannot refresh after {attempts} attempts"
	if p.settings.GiveUpAfter > 0 {
		sentence = "No success since {failing_since}"
	}
	values := strings.NewReplacer(
		"{attempts}", strconv.Itoa(attempts),
		"{error}", text,
		"{failing_since}", m.FailingSince.UTC().Format(time.RFC3339))
	return values.Replace(cmp.Or(p.settings.Reason, sentence))
}

// PolicyColumns returns the columns in which the policy keeps its state. Those that the table must
// have are named; "": the table need not have the column.
func (r *Refresh) PolicyColumns() *mapping.PolicyColumns {
	names := slices.Clone(r.Columns)
	for i := range names {
		if i <= mapping.AttemptNo || i == mapping.FailingSince && r.GiveUpAfter > 0 {
			names[i][0] = cmp.Or(names[i][0], names[i][1])
		}
	}
	return &mapping.PolicyColumns{Refresh: names, Rule: r.RRule.Column}
}

// CheckSchedule adds a warning if settings have no effect under the schedule, else that all is
// well.
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
