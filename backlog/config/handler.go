package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
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

// kindOf returns which of the kinds v, a mapping already decoded, is of: "" if
// of none, which is an error, or of several, which is another.
func (v value) kindOf(kinds []string, none string) string {
	has := slices.DeleteFunc(slices.Clone(kinds), func(k string) bool { return !v.has(k) })
	if len(has) == 1 {
		return has[0]
	}
	if len(has) == 0 && v.isMapping() {
		v.fail("%s", none)
	}
	if len(has) > 1 {
		line := func(k string) int { return v.d.places[join(v.path, k)].line }
		slices.SortStableFunc(has, func(a, b string) int { return cmp.Compare(line(a), line(b)) })
		texts := make([]string, len(has))
		for i, k := range has {
			texts[i] = fmt.Sprintf("%s on line %d", k, line(k))
		}
		last := len(has) - 1
		v.d.errorf(line(has[1]), v.path, "there are %s and %s; keep one of them", strings.Join(texts[:last], ", "), texts[last])
	}
	return ""
}

// instead says what does in one kind what a key of another does there, where
// something does.
var instead = map[[2]string]string{
	{"reject", "http"}:    "write it under http: {reject: [410]}",
	{"reject", "lines"}:   "let a worker answer with the outcome reject",
	{"skip", "lines"}:     "let a worker answer with the outcome skip",
	{"max_pause", "http"}: "write it under http: {max_pause: 1h}",
	{"workers", "exec"}:   "use concurrency", {"workers", "http"}: "use concurrency", {"workers", "sql"}: "use concurrency", {"workers", "redis"}: "start as many workers as you like",
	{"window", "exec"}: "use concurrency", {"window", "http"}: "use concurrency", {"window", "sql"}: "use concurrency",
	{"reject", "redis"}: "let a worker answer with the type reject",
}

// stray reports a key of another kind than v is.
func (v value) stray(key, owner, kind string) {
	v.d.failf(join(v.path, key), "is for %s, and this handler is %s; %s", owner, kind, cmp.Or(instead[[2]string{key, kind}], "remove it"))
}
