package config

import "time"

// OnDead says what is told of each record that becomes dead.
type OnDead struct {
	// The kind: just one is not nil, or none if nothing is told.
	Exec *Exec // without Reject and Skip
	HTTP *HTTP // without MaxPause; no status rejects

	Timeout time.Duration // > 0
}

func (v value) onDead() OnDead {
	o := OnDead{Timeout: defaultHandler().Timeout}
	v.object(keys{
		"exec":    func(v value) { o.Exec = &Exec{Command: v.command("./tell.sh")} },
		"http":    func(v value) { o.HTTP = v.httpTold() },
		"timeout": func(v value) { o.Timeout = v.durationFrom(time.Millisecond) },
	})
	v.kindOf([]string{"exec", "http"}, "nothing to run; add exec: [./tell.sh] or http")
	return o
}
