package recur

import (
	"sync"
	"time"
)

// keptRules is how many rules of rows are remembered at most.
const keptRules = 2000

// Rules parses the rules of rows and remembers them. Each rule remembers the last gap
// that was asked about. It is safe for concurrent use.
type Rules struct {
	zone *time.Location

	mu    sync.Mutex
	known map[string]func() (*Rule, error)
}

// NewRules returns Rules that parse as [Parse] does with the zone.
func NewRules(zone *time.Location) *Rules {
	return &Rules{zone: zone, known: make(map[string]func() (*Rule, error))}
}

// Parse is as [Parse], and errors are remembered as well.
func (r *Rules) Parse(text string) (*Rule, error) {
	if len(text) > maxText {
		return Parse(text, r.zone) // refused at once, and not worth the memory
	}
	r.mu.Lock()
	parsed := r.known[text]
	if parsed == nil {
		if len(r.known) == keptRules {
			clear(r.known) // what is still in use comes back
		}
		parsed = sync.OnceValues(func() (*Rule, error) { return Parse(text, r.zone) })
		r.known[text] = parsed
	}
	r.mu.Unlock()
	return parsed()
}
