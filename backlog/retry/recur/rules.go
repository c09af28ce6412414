package recur

import (
	"sync"
	"time"
)

// keptRules is how many rules of rows are remembered at least.
const keptRules = 1000

// Rules parses the rules of rows and remembers the last 1,000 used, each of which
// remembers the last gap that was asked about. It is safe for concurrent use.
type Rules struct {
	zone *time.Location

	mu        sync.Mutex
	used, old map[string]verdict // old ones are forgotten once as many others were used
}

// A verdict is what became of a text.
type verdict struct {
	rule *Rule
	err  error
}

// NewRules returns Rules that parse as [Parse] does with the zone.
func NewRules(zone *time.Location) *Rules {
	return &Rules{zone: zone, used: make(map[string]verdict)}
}

// Parse is as [Parse], and errors are remembered as well.
func (r *Rules) Parse(text string) (*Rule, error) {
	if len(text) > maxText {
		return Parse(text, r.zone) // refused at once
	}
	r.mu.Lock()
	v, ok := r.used[text]
	if !ok {
		v, ok = r.old[text]
	}
	r.mu.Unlock()
	if !ok {
		v.rule, v.err = Parse(text, r.zone)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.used) >= keptRules {
		r.used, r.old = make(map[string]verdict), r.used
	}
	r.used[text] = v
	return v.rule, v.err
}
