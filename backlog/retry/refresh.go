package retry

import (
	"cmp"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"backlog/backlog/mapping"
	"backlog/backlog/retry/recur"
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

const (
	cannotRefresh = "Cannot refresh after {attempts} attempts"
	noSuccess     = "No success since {failing_since}"
)

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
		_, err = recur.Parse(r.RRule.Text, cmp.Or(r.Zone, time.UTC))
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
	given := 0
	for _, is := range []bool{r.RRule != mapping.Rule{}, r.Every != 0, r.Schedule != ""} {
		if is {
			given++
		}
	}
	switch {
	case given == 0:
		fail("every", "missing, and so are rrule and schedule; say when, such as every: 2h")
	case given > 1:
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
var braced = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\{\w*\}`) })

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
