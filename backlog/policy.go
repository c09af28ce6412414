package backlog

import "time"

// A Memory is what a row remembers of its attempts, in the columns of a policy. A field is zero
// where its column is NULL or missing.
type Memory struct {
	// Next is when the record is to be tried again, or started. It stays zero under a policy
	// that computes the wait from the number of failures.
	Next time.Time

	// Of a policy that counts failures.
	Failures    int       // how often the record has failed
	LastFailure time.Time // when it failed last

	// Of a policy with deadlines.
	AttemptNo    int       // starts since the last success, the running attempt included
	Deadline     time.Time // when the running attempt fails without an answer; zero: none runs
	UID          string    // of the running attempt; "": none runs, or the table has no column for it
	Started      time.Time // start of the last attempt
	Disabled     bool      // no start until the row is saved again
	Reason       string    // why it is disabled or has failed, for the customer
	FailingSince time.Time // end of the first failure since the last success
	Rule         string    // the row's own recurrence rule, where the policy has a column for it
}

// A Rule says when a record is due, as data, for stores, explain and simulate. A nil *Rule means
// that age alone decides: a pending record is due in every pass.
type Rule struct {
	Never   bool // a failed record is never due
	Retries int  // a record that has failed more often is never due; negative: no limit

	// Waits are the waits after the last failure, by the number of failures from 0 on. The last
	// applies to every greater number. Nil: the record's Next says when it is due.
	Waits []time.Duration

	// Starts says that fresh and failed records alike are started at Next, never if that is
	// zero. A record is not due while an attempt runs, or its row is disabled.
	Starts bool
}

// At returns the first moment at which a record of the lane is due, zero for at once; ok is
// false if it never is.
func (r *Rule) At(lane Lane, m *Memory) (at time.Time, ok bool) {
	switch {
	case r == nil || lane == Fresh && !r.Starts:
		return time.Time{}, true
	case !r.Tries(lane) || r.GivesUp(m.Failed()):
		return time.Time{}, false
	case r.Starts && (m.Next.IsZero() || m.Disabled || !m.Deadline.IsZero()):
		return time.Time{}, false
	case r.Waits == nil:
		return m.Next, true
	case m.Failures <= 0 || m.LastFailure.IsZero():
		return time.Time{}, true
	}
	return m.LastFailure.Add(r.Waits[min(m.Failures, len(r.Waits)-1)]), true
}

// Order returns the time by which the records of a lane are ordered that is ByWait.
func (r *Rule) Order(m *Memory) time.Time {
	if r.Waits == nil {
		return m.Next
	}
	return m.LastFailure
}

// InOrder reports whether the records of such a lane are ordered by when they are due. Then
// behind one that is not due, no other is.
func (r *Rule) InOrder() bool { return r.Waits == nil }

// ByWait reports whether the lane is ordered by how long its records have waited, the longest
// first, instead of by their age.
func (r *Rule) ByWait(lane Lane) bool { return r != nil && !r.Never && (lane == Failed || r.Starts) }

// Aged reports whether a record is due only in passes that reach its age.
func (r *Rule) Aged() bool { return r == nil || !r.Starts }

// Tries reports whether records of the lane are ever due.
func (r *Rule) Tries(lane Lane) bool { return r == nil || lane == Fresh || !r.Never }

// GivesUp reports whether a record that has failed so often is never due again.
func (r *Rule) GivesUp(failures int) bool {
	return r != nil && r.Retries >= 0 && failures > r.Retries
}

// A Policy says when a failed record is due again and when it is given up. A
// nil *Policy is the progressive one, for which age alone decides: the record
// is due in every pass that reaches its age, and never given up.
//
// A counted policy computes the wait from the number of failures in each pass;
// a planned policy draws it once, when the failure is settled. A Policy must not
// be changed after its first use; its methods may be called concurrently.
type Policy struct {
	Name string

	// Wait returns the bounds of the wait after the n-th failure,
	// 1 <= n <= 1,000,000; the last applies to every greater n. They are never
	// negative and never above MaxWait. Both bounds of a counted policy are equal. With
	// more than 100 retries they do not shrink as n grows, because [Policy.Waits]
	// ends with the first wait that is as long as the last.
	Wait func(n int) (least, most time.Duration)

	Retries int  // after the first attempt; negative: no limit
	Planned bool // Memory.Next is written when a failure is settled
	Never   bool // no failed record is ever due, and its row remembers nothing

	// Refresher, if not nil, plans the starts of records that are processed again
	// and again. Then all fields above except Name are zero, and the store is a [Beginner].
	Refresher Refresher
}

// MaxWait is the longest wait of any policy: a hundred years.
const MaxWait = 100 * 365 * 24 * time.Hour

// manyFailures is a number of failures from which on no wait grows.
const manyFailures = 1_000_000

// wait returns what Wait does, for any n.
func (p *Policy) wait(n int) (least, most time.Duration) {
	if n <= 0 {
		return 0, 0
	}
	return p.Wait(min(n, manyFailures))
}

// Draw returns the wait after the n-th failure for a random number that is
// uniform in [0, 1).
func (p *Policy) Draw(n int, random float64) time.Duration {
	least, most := p.wait(n)
	return least + time.Duration(random*float64(most-least))
}

// GivenUp reports whether a record that has failed so often is never tried
// again.
func (p *Policy) GivenUp(failures int) bool {
	return p != nil && (&Rule{Retries: p.Retries}).GivesUp(failures)
}

// Rule returns when records are due; nil: age alone decides.
func (p *Policy) Rule() *Rule {
	if p == nil {
		return nil
	}
	r := &Rule{Never: p.Never, Retries: p.Retries, Starts: p.HasDeadlines()}
	if !p.Never && !p.Planned && !r.Starts {
		r.Waits = p.Waits()
	}
	return r
}

// HasDeadlines reports whether the starts of attempts are written, and an attempt without an
// answer fails at its deadline.
func (p *Policy) HasDeadlines() bool { return p != nil && p.Refresher != nil }

// Keeps reports whether rows remember something for the policy.
func (p *Policy) Keeps() bool { return p != nil && !p.Never }

// Start returns what the row remembers after the start of an attempt: m itself under a policy
// without deadlines. An error says that the row's rule cannot be read, so that the record is not
// started.
func (p *Policy) Start(m *Memory, at time.Time, uid string) (*Memory, error) {
	if !p.HasDeadlines() {
		return m, nil
	}
	next, err := p.Refresher.Start(*m, at, uid)
	return &next, err
}

// An End is how an attempt ends.
type End struct {
	Outcome Outcome
	At      time.Time
	Random  func() float64 // uniform in [0, 1), for a wait that is drawn
	Text    string         // the error's
	Before  *Memory        // what the row remembered before the start, which a Skipped attempt restores; nil: not known
	Until   time.Time      // of a Snoozed attempt: the record is not tried before
}

// End returns what the row remembers after the end of an attempt, nil if that does not change,
// and whether the attempt was the last one. It is if the record is rejected, given up or, under a
// policy with deadlines, finished.
func (p *Policy) End(m *Memory, end End) (next *Memory, last bool) {
	rejected := end.Outcome == Rejected
	switch {
	case p.HasDeadlines() && end.Outcome == Snoozed:
		after := p.snooze(*m, end)
		return &after, false
	case p.HasDeadlines():
		after, final := p.Refresher.End(*m, end.Outcome, end.At, end.Text, end.Before)
		return &after, final
	case !rejected && end.Outcome != Errored:
		return nil, false
	}
	failures := max(m.Failed(), 0) + 1
	givenUp := p.GivenUp(failures)
	if !p.Keeps() {
		return nil, rejected || givenUp
	}
	next = &Memory{Failures: failures, LastFailure: end.At}
	if p.Planned && !givenUp {
		next.Next = end.At.Add(p.Draw(failures, end.Random()))
	}
	return next, rejected || givenUp
}

// snooze returns what the row remembers after a Snoozed attempt under a policy with deadlines: the
// same as after a Skipped one, with the next start when the snooze is over. A row that was saved
// during the attempt keeps the start that was saved.
func (p *Policy) snooze(m Memory, end End) Memory {
	before := end.Before
	if before == nil { // the start of the attempt was counted
		uncounted := m
		uncounted.AttemptNo = max(0, m.AttemptNo-1)
		before = &uncounted
	}
	after, _ := p.Refresher.End(m, Skipped, end.At, end.Text, before)
	wasSaved := !m.Next.IsZero() && m.Next.Before(m.Deadline)
	if !wasSaved {
		after.Next = end.Until
	}
	return after
}

// hasAttempts reports whether attempts with deadlines were started since the last success.
func (m *Memory) hasAttempts() bool { return m != nil && (m.AttemptNo > 0 || m.Disabled) }

// Failed returns how often the record has failed, 0 if m is nil.
func (m *Memory) Failed() int {
	if m == nil {
		return 0
	}
	return m.Failures
}

// Waits returns the waits of a counted policy by the number of failures, from 0
// on. The last applies to every greater number at which the record is not given up.
func (p *Policy) Waits() (list []time.Duration) {
	last, _ := p.wait(manyFailures)
	grow := p.Retries < 0 || p.Retries > 100
	for n := 0; ; n++ {
		w, _ := p.wait(n)
		list = append(list, w)
		if n == p.Retries || grow && w == last {
			return list
		}
	}
}
