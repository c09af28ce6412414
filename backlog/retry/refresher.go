package retry

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"backlog/backlog"
	"backlog/backlog/mapping"
	"backlog/backlog/retry/recur"
)

// A Refresher moves records that are processed again and again from state to state.
// Its methods are pure and may be called concurrently. [NewRefresher] makes one.
type Refresher struct {
	settings Refresh
	rule     *recur.Rule  // of all rows
	rules    *recur.Rules // of each row; nil: all have one
}

// NewRefresher returns the refresher with the settings. An error about a setting
// begins with its name.
func NewRefresher(r *Refresh) (*Refresher, error) {
	p, err := Policy(r)
	if err != nil {
		return nil, err
	}
	return p.Refresher.(*Refresher), nil
}

// refresher is for settings that were checked.
func (r *Refresh) refresher() *Refresher {
	p := &Refresher{settings: *r}
	switch {
	case r.RRule.Column != "":
		p.rules = recur.NewRules(cmp.Or(r.Zone, time.UTC))
	case r.RRule.Text != "":
		p.rule, _ = recur.Parse(r.RRule.Text, cmp.Or(r.Zone, time.UTC))
	case r.Every > 0:
		p.rule = recur.Every(r.Every)
	}
	return p
}

// Settings returns what the refresher was made of.
func (p *Refresher) Settings() Refresh { return p.settings }

// Rule returns when the row recurs; nil: never. The error says what is wrong with the
// row's own rule.
func (p *Refresher) Rule(s backlog.Refresh) (*recur.Rule, error) {
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
func (p *Refresher) Apply(s backlog.Refresh, a Action, now time.Time) (next backlog.Refresh, final bool, err error) {
	switch a {
	case Start:
		next, err = p.Start(s, now, "")
		return next, false, err
	case Save:
		return Saved(s, now), false, nil
	}
	o, ok := map[Action]backlog.Outcome{Success: backlog.Succeeded, Failure: backlog.Errored, Reject: backlog.Rejected}[a]
	if !ok {
		return s, false, fmt.Errorf("no action %q; there are start, success, failure, reject and save", a)
	}
	next, final = p.End(s, o, now, "", nil)
	return next, final, nil
}

// Saved returns what the row of a record becomes when its owner saves it: it starts
// at once, and whatever runs is superseded.
func Saved(s backlog.Refresh, now time.Time) backlog.Refresh {
	return backlog.Refresh{At: now, Started: s.Started, Rule: s.Rule}
}

// Start implements [backlog.Refresher].
func (p *Refresher) Start(s backlog.Refresh, now time.Time, uid string) (backlog.Refresh, error) {
	rule, err := p.Rule(s)
	if err != nil {
		return s, err
	}
	s.UID, s.Started, s.Deadline = uid, now, now.Add(p.settings.Timeout)
	s.AttemptNo = max(0, s.AttemptNo) + 1
	s.At = s.Deadline
	if at, ok := rule.First(s.Deadline); ok {
		s.At = at
	}
	return s, nil
}

// End implements [backlog.Refresher].
func (p *Refresher) End(s backlog.Refresh, o backlog.Outcome, now time.Time, text string, began *backlog.Refresh) (backlog.Refresh, bool) {
	saved := !s.At.IsZero() && s.At.Before(s.Deadline) // during the attempt: a start writes no time before its deadline
	s.UID, s.Deadline = "", time.Time{}
	switch {
	case saved:
		return s, false
	case o == backlog.Skipped:
		if began != nil {
			s.At, s.AttemptNo = began.At, began.AttemptNo
		}
		return s, false
	}
	rule, err := p.Rule(s)
	if o == backlog.Succeeded && err == nil {
		s.AttemptNo, s.FailingSince, s.Reason = 0, time.Time{}, ""
		s.At, _ = rule.Next(now)
		return s, s.At.IsZero()
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
		s.At = p.retry(now.Add(p.settings.Intervals[n-1]), planned, recurs)
		return s, false
	case p.settings.AfterLast == "wait" && recurs:
		s.AttemptNo, s.At = 0, planned
		return s, false
	}
	return p.disable(s, p.reason(s, n, text)), true
}

// retry returns the time of a retry that is due at a time, with the next occurrence
// planned if there is one.
func (p *Refresher) retry(at, planned time.Time, recurs bool) time.Time {
	late := at.After(planned)
	if p.settings.Align {
		late = late || at.Add(p.settings.Timeout).After(planned)
	}
	if recurs && late {
		return planned
	}
	return at
}

func (p *Refresher) disable(s backlog.Refresh, reason string) backlog.Refresh {
	s.At, s.Disabled, s.Reason = time.Time{}, true, reason
	return s
}

// reason returns the sentence for a row that is disabled after n attempts.
func (p *Refresher) reason(s backlog.Refresh, n int, text string) string {
	sentence := cannotRefresh
	if p.settings.GiveUpAfter > 0 {
		sentence = noSuccess
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
