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

// The bounds of what is remembered.
const (
	maxPasses   = 1000
	maxOutages  = 20
	maxRecords  = 10_000 // that failed, with their attempts
	maxAttempts = 5      // of each
	maxText     = 256    // bytes of an attempt's error
	maxError    = 1024   // of a pass's, and of the database's
	maxStreaks  = 100_000
	maxSuspects = 1000
	maxCounted  = 100_000 // pairs of a record and a cause
	// suspectAfter are the failures in a row after which a record is suspected, where at
	// least half of the other attempts meanwhile have succeeded.
	suspectAfter = 5
)

// A PastOutage is one that is over.
type PastOutage struct {
	Outage
	Ended time.Time `json:"ended"`
}

// Failures are why attempts have failed since the first event.
type Failures struct {
	Since    time.Time
	Attempts int // that failed
	Causes   []SeenCause
}

// A SeenCause is a cause with where and when it was met. Its Records have failed so since
// the first event, each counted once; beyond maxCounted of all causes one that comes back
// may be counted anew.
type SeenCause struct {
	Cause
	Attempts  int           `json:"attempts"` // that failed so
	Share     float64       `json:"share"`    // of all failed attempts
	FirstSeen inspect.Stamp `json:"first_seen"`
	LastSeen  inspect.Stamp `json:"last_seen"`
	Tiers     []string      `json:"tiers"`
}

// An Attempt is one that has ended.
type Attempt struct {
	At      inspect.Stamp `json:"at"`
	Tier    string        `json:"tier"`
	Outcome string        `json:"outcome"`
	Error   string        `json:"error"`
}

// A Suspect is a record that fails again and again where others succeed.
type Suspect struct {
	ID       backlog.Key   `json:"id"`
	Failures int           `json:"failures"` // in a row, since the process began
	Error    string        `json:"error"`    // the last one
	Last     inspect.Stamp `json:"last"`
}

// A history is what has been, bounded. Its owner locks it.
type history struct {
	since    time.Time // of the first event; zero: there was none
	passes   []Pass    // the oldest first
	outages  []PastOutage
	failures causes.Tally
	met      map[*causes.Cause]*meeting
	failed   int // attempts

	ended, good uint64                         // attempts, and those that succeeded
	counted     *simplelru.LRU[pair, struct{}] // what failed
	records     *simplelru.LRU[uint64, []Attempt]
	streaks     *simplelru.LRU[uint64, streak]
	suspects    *simplelru.LRU[uint64, Suspect]
}

type meeting struct {
	number      uint64 // of the cause
	records     int
	first, last time.Time
	tiers       map[string]bool
}

// A pair is a record's hash with the number of a cause.
type pair struct{ record, cause uint64 }

// A streak is a record's failures in a row, and how many attempts there were when the
// last ones of them began to count.
type streak struct {
	failures    int
	ended, good uint64
}

// lock locks the picture, which its first use makes, and returns what unlocks it.
func (p *Picture) lock() (unlock func()) {
	p.mu.Lock()
	if p.history == nil {
		p.passes, p.history = make(map[string]*pass), &history{met: make(map[*causes.Cause]*meeting)}
		p.counted, _ = simplelru.NewLRU[pair, struct{}](maxCounted, nil) // an error is a size below one
		p.records, _ = simplelru.NewLRU[uint64, []Attempt](maxRecords, nil)
		p.streaks, _ = simplelru.NewLRU[uint64, streak](maxStreaks, nil)
		p.suspects, _ = simplelru.NewLRU[uint64, Suspect](maxSuspects, nil)
	}
	return p.mu.Unlock
}

// attempt takes the end of one; folded and text are its error's.
func (h *history) attempt(ev backlog.Event, folded, text string) {
	h.ended++
	if ev.Outcome == backlog.Succeeded {
		h.good++
		if h.records.Len() == 0 {
			return
		}
	}
	id := ev.Record.Key.Hash()
	if ev.Outcome == backlog.Succeeded {
		h.streaks.Remove(id)
		h.suspects.Remove(id)
	} else if text != "" {
		h.failure(ev, id, folded, text)
	}
	if list, known := h.records.Peek(id); known || text != "" {
		x := Attempt{inspect.Stamp(ev.At), ev.Tier, ev.Outcome.String(), inspect.Elide(text, maxText)}
		h.records.Add(id, append([]Attempt{x}, list[:min(len(list), maxAttempts-1)]...))
	}
}

func (h *history) failure(ev backlog.Event, id uint64, folded, text string) {
	h.failed++
	c := h.failures.Add(folded, text, ev.Record.Key)
	m := h.met[c]
	if m == nil {
		m = &meeting{number: uint64(len(h.met)), first: ev.At, tiers: make(map[string]bool)}
		h.met[c] = m
	}
	met := pair{id, m.number}
	if !h.counted.Contains(met) {
		m.records++
	}
	h.counted.Add(met, struct{}{})
	m.last = ev.At
	m.tiers[ev.Tier] = true

	s, known := h.streaks.Get(id)
	if !known {
		s = streak{ended: h.ended - 1, good: h.good}
	}
	s.failures++
	suspected := h.suspects.Contains(id)
	if s.failures%suspectAfter == 0 {
		others := h.ended - s.ended - suspectAfter
		suspected = others > 0 && 2*(h.good-s.good) >= others
		s.ended, s.good = h.ended, h.good
	}
	h.streaks.Add(id, s)
	if suspected {
		h.suspects.Add(id, Suspect{ev.Record.Key, s.failures, inspect.Elide(text, maxText), inspect.Stamp(ev.At)})
	} else {
		h.suspects.Remove(id)
	}
}

// last returns the list's newest elements.
func last[T any](list []T, most int) []T { return list[max(0, len(list)-most):] }

// Restore goes on with what other processes have left: passes, the oldest first, past
// outages, the newest first, and the one that lasts; nil: none.
func (p *Picture) Restore(passes []Pass, past []PastOutage, o *Outage) {
	defer p.lock()()
	h := p.history
	if h.outages, p.outage = last(reversed(past), maxOutages), o; len(passes) > 0 {
		h.passes = last(passes, maxPasses)
	}
}

// Passes returns those that have ended, the newest first.
func (p *Picture) Passes() []Pass {
	defer p.lock()()
	return reversed(p.history.passes)
}

// Outages returns those that are over, the newest first.
func (p *Picture) Outages() []PastOutage {
	defer p.lock()()
	return reversed(p.history.outages)
}

// reversed returns a copy.
func reversed[T any](list []T) []T {
	list = slices.Clone(list)
	slices.Reverse(list)
	return list
}

// Running returns the passes under way.
func (p *Picture) Running() (list []Pass) {
	defer p.lock()()
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
	for c, m := range h.met {
		seen := SeenCause{
			Cause: CauseOf(c), Attempts: c.Records, Share: float64(c.Records) / float64(h.failed),
			FirstSeen: inspect.Stamp(m.first), LastSeen: inspect.Stamp(m.last), Tiers: slices.Sorted(maps.Keys(m.tiers)),
		}
		seen.Records = m.records
		f.Causes = append(f.Causes, seen)
	}
	slices.SortFunc(f.Causes, func(a, b SeenCause) int {
		return cmp.Or(b.Attempts-a.Attempts, time.Time(a.FirstSeen).Compare(time.Time(b.FirstSeen)))
	})
	return f
}

// CauseOf returns the cause as passes have it.
func CauseOf(c *causes.Cause) Cause {
	first, _ := c.First.MarshalJSON()
	return Cause{c.String(), c.Records, json.RawMessage(first)}
}

// Attempts returns the last ones at a record that has failed, the newest first.
func (p *Picture) Attempts(key backlog.Key) []Attempt {
	defer p.lock()()
	list, _ := p.records.Peek(key.Hash())
	return append([]Attempt{}, list...)
}

// Suspects returns the records that are suspected, the latest failure first.
func (p *Picture) Suspects() []Suspect {
	defer p.lock()()
	return reversed(p.suspects.Values())
}
