package pings

import "time"

// SetPause sets how long the second try is waited for.
func (p *Pings) SetPause(d time.Duration) { p.pause = d }
