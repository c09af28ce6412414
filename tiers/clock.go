package tiers

import "time"

// A Clock is up to when the ticks of a schedule are handled, and which tiers are owed a pass
// beside those that tick. It is not safe for concurrent use.
type Clock struct {
	Last time.Time       // ticks up to it are handled
	Owed map[string]bool // names of tiers, as if they had ticked once
}

// A Wake says what is to be done about the ticks since the last look at the clock.
type Wake struct {
	Pick
	Since   time.Time       // the ticks after it are handled
	Taken   map[string]bool // tiers that were owed a pass: Start and Covered make up for them
	Delayed []string        // tiers whose ticks wait for the end of the pause
	Back    time.Duration   // how far the clock was set back since the last look
}

// Wake handles the ticks up to now. A tier that is busy does not start. In a pause the ticks
// become owed: after it they are one pass. A clock that was set back is not waited for, since
// that could take for ever: ticks count from where it is now.
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
		delete(w.Taken, d.Tier.Name) // its pass under way has to end first
	}
	return w
}

// Owe has the tier taken as due at the next wake.
func (c *Clock) Owe(name string) {
	if c.Owed == nil {
		c.Owed = make(map[string]bool)
	}
	c.Owed[name] = true
}
