package tiers

import "time"

// A Clock keeps up to when the ticks of a schedule are handled, and which tiers are owed a pass. It is
// not safe for concurrent use.
type Clock struct {
	Last time.Time       // the ticks up to it are handled
	Owed map[string]bool // names of tiers that the next wake takes as if they had ticked once
}

// A Wake says which tier starts for the ticks since the last wake, and what becomes of the others.
type Wake struct {
	Pick
	Since   time.Time       // the last wake
	Taken   map[string]bool // tiers that were owed a pass, which Start and Covered make up for
	Delayed []string        // tiers that ticked in a pause
	Back    time.Duration   // by how much the clock was set back since the last wake
}

// Wake handles the ticks up to now. A busy tier does not start. In a pause no tier starts; those that
// tick are owed one pass afterwards. If the clock was set back, ticks count from where it is now,
// because to wait until it has caught up could take for ever.
func (c *Clock) Wake(s *Schedule, now time.Time, paused bool, busy func(Tier) bool) Wake {
	w := Wake{Back: max(0, c.Last.Sub(now))}
	if w.Back > 0 {
		c.Last = now
	}
	w.Since = c.Last
	if !paused {
		w.Taken = c.Owed
		c.Owed = nil
	}
	due := s.DueOrOwed(c.Last, now, w.Taken)
	c.Last = now
	if paused {
		for _, d := range due {
			c.Owe(d.Tier.Name)
			w.Delayed = append(w.Delayed, d.Tier.Name)
		}
	}
	w.Pick = Coalesce(due, func(t Tier) bool { return !busy(t) })
	for _, d := range w.Skipped {
		delete(w.Taken, d.Tier.Name) // its pass is still under way
	}
	return w
}

// Owe makes the tier due at the next wake.
func (c *Clock) Owe(name string) {
	if c.Owed == nil {
		c.Owed = make(map[string]bool)
	}
	c.Owed[name] = true
}
