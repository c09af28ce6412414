package config

import "time"

// Lines are programs that live long and take a record by a line each.
type Lines struct {
	Command []string // as in [Exec]
	Workers int      // how many such programs; >= 1
	Window  int      // records in flight at each; >= 1

	MaxPause time.Duration // what retry_after can ask for; > 0
}

func defaultLines() Lines { return Lines{Workers: 1, Window: 64, MaxPause: defaultMaxPause} }

// inFlight returns how many records are in flight at all the workers of the
// handler v: what their windows hold, or the given number if there is one and
// it is smaller.
func (v value) inFlight(l *Lines, given int) int {
	if l.Workers > mostInFlight || l.Window > mostInFlight || l.Workers*l.Window > mostInFlight {
		at := "window"
		if !v.has(at) {
			at = "workers"
		}
		v.d.failf(join(v.path, at), "workers × window would be more than %d records in flight; lower one of them", mostInFlight)
		return 1
	}
	if !v.has("concurrency") {
		return max(1, l.Workers*l.Window)
	}
	return max(1, min(given, l.Workers*l.Window))
}
