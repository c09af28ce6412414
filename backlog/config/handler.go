package config

import (
	"time"
)

// A Handler says what processes a record and how many at a time.
type Handler struct {
	Kind     string // such as exec; "" if the file has no handler: then there are only defaults
	Settings any    // of the type that the [Settings] made

	Timeout time.Duration `yaml:"timeout" min:"1ms"` // of one attempt

	// Concurrency is how many records are processed at a time, at least 1 and
	// at most 100,000; never more than the settings' InFlight, where they have
	// such a method.
	Concurrency int `yaml:"concurrency" min:"1" max:"100000" why:"so many records are never processed at a time"`
}

func defaultHandler() Handler {
	return Handler{Timeout: 30 * time.Second, Concurrency: 4}
}

func (v value) handler() Handler {
	h := defaultHandler()
	if v.isText() {
		v.mismatch("a mapping such as {exec: [./deliver.sh]}")
		return h
	}
	h.Kind, h.Settings = v.oneKind(v.d.known.Handlers, v.settingsOf(&h, nil), "nothing to run; add exec: [./deliver.sh], or lines, http, sql or redis")
	if bounded, ok := h.Settings.(interface{ InFlight() int }); ok {
		if most := bounded.InFlight(); !v.has("concurrency") || most < h.Concurrency {
			h.Concurrency = max(1, most)
		}
	}
	return h
}

// OnDead says what is told of each record that becomes dead.
type OnDead struct {
	Kind     string // "": nothing is told
	Settings any
	Timeout  time.Duration `yaml:"timeout" min:"1ms"`
}

func (v value) onDead() OnDead {
	o := OnDead{Timeout: defaultHandler().Timeout}
	o.Kind, o.Settings = v.oneKind(v.d.known.OnDead, v.settingsOf(&o, nil), "nothing to run; add exec: [./tell.sh], or http or mail")
	return o
}

const sameTime = "use concurrency"

// instead says, of a key that a kind of handler lacks, what does the same there.
var instead = map[string]map[string]string{
	"exec": {"workers": sameTime, "window": sameTime},
	"http": {"workers": sameTime, "window": sameTime,
		"reject": "write it under http: {reject: [410]}", "max_pause": "write it under http: {max_pause: 1h}"},
	"lines": {"reject": "let a worker answer with the outcome reject",
		"skip": "let a worker answer with the outcome skip"},
	"redis": {"workers": "start as many workers as you like",
		"reject": "let a worker answer with the type reject"},
	"sql": {"workers": sameTime, "window": sameTime},
}
