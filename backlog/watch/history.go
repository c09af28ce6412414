package watch

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"backlog/backlog"
	"backlog/backlog/causes"
	"backlog/backlog/inspect"
)

// The bounds of the history.
const (
	maxPasses   = 1000
	maxOutages  = 20
	maxRecords  = 10_000 // records that failed, whose attempts are kept
	maxAttempts = 5      // attempts of each of them
	maxText     = 256    // bytes of an attempt's error
	maxError    = 1024   // bytes of a pass's error and of the database's
	maxStreaks  = 100_000
	maxSuspects = 1000
	maxCounted  = 100_000 // pairs of a record and a cause
	// suspectAfter is after how many failures in a row a record is suspected, if at least half
	// of the other attempts since the first of them have succeeded.
	suspectAfter = 5
)

// A PastOutage is an outage that is over.
type PastOutage struct {
	Outage
	Ended   time.Time `json:"ended"`
	Drained time.Time `json:"drained_by,omitzero"` // its DrainedBy
}

// Failures are why attempts have failed since the first event.
type Failures struct {
	Since    time.Time
	Attempts int // that failed
	Causes   []SeenCause
}

// A SeenCause is a cause with when and in which tiers it was seen. Its Records have failed so since
// the first event. Each is counted once, as long as it is among the last maxCounted pairs of a
// record and a cause.
type SeenCause struct {
	Cause
	Attempts  int           `json:"attempts"` // that failed so
	Share     float64       `json:"share"`    // of all failed attempts
	FirstSeen inspect.Stamp `json:"first_seen"`
	LastSeen  inspect.Stamp `json:"last_seen"`
	Tiers     []string      `json:"tiers"`
}

// An Attempt is an attempt that has ended.
type Attempt struct {
	At      inspect.Stamp `json:"at"`
	Tier    string        `json:"tier"`
	Outcome string        `json:"outcome"`
	Error   string        `json:"error"`
}

// A Suspect is a record that fails again and again while others succeed.
type Suspect struct {
	ID       backlog.Key   `json:"id"`
	Failures int           `json:"failures"` // in a row, since the process began
	Error    string        `json:"error"`    // of the last one
	Last     inspect.Stamp `json:"last"`
}

// A history is what has happened so far, within bounds. The mutex of its Picture guards it.
type history struct {
	since    time.Time // of the first event; zero: there was none
	passes   []Pass    // the oldest first
	outages  []PastOutage
	failures causes.Tally
	seen     map[*causes.Cause]*sightings
	failed   int // attempts

	attempts  uint64 // that ended
	succeeded uint64 // attempts
	counted   *simplelru.LRU[pair, struct{}]
	records   *simplelru.LRU[uint64, []Attempt] // by the hash of the record's key, as below
	streaks   *simplelru.LRU[uint64, streak]
	suspects  *simplelru.LRU[uint64, Suspect]
}

// sightings are when and where a cause was seen, and of how many records.
type sightings struct {
	number  uint64 // of the cause
	records int
	first   time.Time
	last    time.Time
	tiers   map[string]bool
}

// A pair is the hash of a record's key and the number of a cause with which it has failed.
type pair struct{ record, cause uint64 }

// A streak is a record's failures in a row. attempts and succeeded are the history's counts when
// the first of the last suspectAfter failures came.
type streak struct {
	failures  int
	attempts  uint64
	succeeded uint64
}

// lock locks the picture, makes its maps at the first call, and returns the function that unlocks
// it.
func (p *Picture) lock() (unlock func()) {
	p.mu.Lock()
	if p.history == nil {
		p.passes = make(map[string]*pass)
		p.history = &history{seen: make(map[*causes.Cause]*sightings)}
		p.counted, _ = simplelru.NewLRU[pair, struct{}](maxCounted, nil) // no error: the size is more than 0
		p.records, _ = simplelru.NewLRU[uint64, []Attempt](maxRecords, nil)
		p.streaks, _ = simplelru.NewLRU[uint64, streak](maxStreaks, nil)
		p.suspects, _ = simplelru.NewLRU[uint64, Suspect](maxSuspects, nil)
	}
	return p.mu.Unlock
}

// addAttempt adds an attempt that has ended; text is its error's, folded what [causes.Fold] makes of
// it.
func (h *history) addAttempt(ev backlog.Event, folded, text string) {
	h.attempts++
	if ev.Outcome == backlog.Succeeded {
		h.succeeded++
		if h.records.Len() == 0 {
			return
		}
	}
	id := ev.Record.Key.Hash()
	if ev.Outcome == backlog.Succeeded {
		h.streaks.Remove(id)
		h.suspects.Remove(id)
	} else if text != "" {
		h.addFailure(ev, id, folded, text)
	}
	list, known := h.records.Peek(id)
	if known || text != "" {
		x := Attempt{
			At:      inspect.Stamp(ev.At),
			Tier:    ev.Tier,
			Outcome: ev.Outcome.String(),
			Error:   inspect.Elide(text, maxText),
		}
		h.records.Add(id, append([]Attempt{x}, list[:min(len(list), maxAttempts-1)]...))
	}
}

// addFailure adds a failed attempt at the record of that hash to its cause and to its streak.
func (h *history) addFailure(ev backlog.Event, id uint64, folded, text string) {
	h.failed++
	c := h.failures.Add(folded, text, ev.Record.Key)
	seen := h.seen[c]
	if seen == nil {
		seen = &sightings{number: uint64(len(h.seen)), first: ev.At, tiers: make(map[string]bool)}
		h.seen[c] = seen
	}
	recordAndCause := pair{id, seen.number}
	if !h.counted.Contains(recordAndCause) {
		seen.records++
	}
	h.counted.Add(recordAndCause, struct{}{})
	seen.last = ev.At
	seen.tiers[ev.Tier] = true

	s, known := h.streaks.Get(id)
	if !known {
		s = streak{attempts: h.attempts - 1, succeeded: h.succeeded}
	}
	s.failures++
	suspected := h.suspects.Contains(id)
	if s.failures%suspectAfter == 0 {
		others := h.attempts - s.attempts - suspectAfter
		suspected = others > 0 && 2*(h.succeeded-s.succeeded) >= others
		s.attempts = h.attempts
		s.succeeded = h.succeeded
	}
	h.streaks.Add(id, s)
	if suspected {
		h.suspects.Add(id, Suspect{
			ID:       ev.Record.Key,
			Failures: s.failures,
			Error:    inspect.Elide(text, maxText),
			Last:     inspect.Stamp(ev.At),
		})
	} else {
		h.suspects.Remove(id)
	}
}

// newest returns the last elements of a list, at most so many.
func newest[T any](list []T, most int) []T { return list[max(0, len(list)-most):] }

// Restore sets what earlier processes have left in the state folder: passes, the oldest first,
// unless there are none; past outages, the newest first; and the present outage, which may be nil.
func (p *Picture) Restore(passes []Pass, past []PastOutage, o *Outage) {
	defer p.lock()()
	p.outage = o
	p.history.outages = newest(reversed(past), maxOutages)
	if len(passes) > 0 {
		p.history.passes = newest(passes, maxPasses)
	}
}

// Passes returns the passes that have ended, the newest first.
func (p *Picture) Passes() []Pass {
	defer p.lock()()
	return reversed(p.history.passes)
}

// Outages returns the outages that are over, the newest first.
func (p *Picture) Outages() []PastOutage {
	defer p.lock()()
	return reversed(p.history.outages)
}

// reversed returns a copy of the list in reverse order.
func reversed[T any](list []T) []T {
	list = slices.Clone(list)
	slices.Reverse(list)
	return list
}

// Running returns the passes under way.
func (p *Picture) Running() []Pass {
	defer p.lock()()
	var list []Pass
	for _, tier := range slices.Sorted(maps.Keys(p.passes)) {
		if x := p.passes[tier]; x.begun != nil {
			list = append(list, *x.begun)
		}
	}
	return list
}

// Failures returns why attempts have failed, the cause of most attempts first.
func (p *Picture) Failures() Failures {
	defer p.lock()()
	h := p.history
	f := Failures{Since: h.since, Attempts: h.failed}
	for c, s := range h.seen {
		cause := SeenCause{
			Cause:     CauseOf(c),
			Attempts:  c.Records, // the tally adds up attempts
			Share:     float64(c.Records) / float64(h.failed),
			FirstSeen: inspect.Stamp(s.first),
			LastSeen:  inspect.Stamp(s.last),
			Tiers:     slices.Sorted(maps.Keys(s.tiers)),
		}
		cause.Records = s.records
		f.Causes = append(f.Causes, cause)
	}
	slices.SortFunc(f.Causes, func(a, b SeenCause) int {
		return cmp.Or(b.Attempts-a.Attempts, time.Time(a.FirstSeen).Compare(time.Time(b.FirstSeen)))
	})
	return f
}

// CauseOf returns the cause for JSON.
func CauseOf(c *causes.Cause) Cause {
	first, _ := c.First.MarshalJSON()
	return Cause{Error: c.String(), Records: c.Records, First: json.RawMessage(first)}
}

// Attempts returns the last attempts at a record that has failed, the newest first.
func (p *Picture) Attempts(key backlog.Key) []Attempt {
	defer p.lock()()
	list, _ := p.records.Peek(key.Hash())
	return append([]Attempt{}, list...)
}

// Suspects returns the suspects, the latest failure first.
func (p *Picture) Suspects() []Suspect {
	defer p.lock()()
	return reversed(p.suspects.Values())
}
