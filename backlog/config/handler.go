package config

import (
	"cmp"
	"slices"
	"time"

	"backlog/tiers"
)

// A Handler says what processes a record and how many at a time.
type Handler struct {
	Kind     string // such as exec; "" if the file has no handler: then there are only defaults
	Settings any    // of the type that the [Settings] made

	Timeout time.Duration `yaml:"timeout" min:"1ms"` // of one attempt

	// Concurrency is how many records are processed at a time, at least 1 and
	// at most 100,000; never more than the InFlight of settings that are [Bounded].
	Concurrency int `yaml:"concurrency" min:"1" max:"100000" why:"so many records are never processed at a time"`
}

func defaultHandler() Handler { return Handler{Timeout: 30 * time.Second, Concurrency: 4} }

func (v value) handler() Handler {
	h := defaultHandler()
	if v.isText() {
		v.mismatch("a mapping such as {exec: [./deliver.sh]}")
		return h
	}
	h.Kind, h.Settings = v.oneKind(v.d.known.Handlers, v.settingsOf(&h, nil), "nothing to run; add exec: [./deliver.sh], or lines, http, sql or redis")
	if bounded, ok := h.Settings.(Bounded); ok {
		if most := bounded.InFlight(); !v.has("concurrency") || most < h.Concurrency {
			h.Concurrency = max(1, most)
		}
	}
	return h
}

// OnDead says what is told of each record that becomes dead or, as on_outage, of the
// beginning and the end of an outage.
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

// ofTables are the kinds of handlers that need a table of their own.
var ofTables = []string{"sql", "redis", "amqp"}

// worker decodes the broker of requests that another process has dispatched, and what
// handles them.
func (v value) worker() (settings any, h Handler) {
	h = defaultHandler()
	var concurrency int
	_, settings = v.oneKind(v.d.known.Workers, keys{
		"handler":     func(v value) { h = v.handler() },
		"concurrency": func(v value) { concurrency = v.integer(1) },
	}, "names no broker; add amqp: {url: …, name: …}")
	h.Concurrency, h.Timeout = cmp.Or(concurrency, h.Concurrency), 0
	v.d.misplaced("worker.handler.timeout", "stands in the daemon's file, which sends it with each record; remove it")
	v.d.misplaced("worker.handler.input", "is what a program reads of a message, and a record is always JSON; remove it")
	if slices.Contains(ofTables, h.Kind) {
		v.d.failf(join(v.path, "handler."+h.Kind), "does not work in a worker; take exec, lines or http")
	} else if h.Kind == "" && !v.has("handler") {
		v.fail("has no handler; add handler: {exec: [./deliver.sh]}")
	}
	return settings, h
}

// isWorker reports whether the file has a worker.
func (v value) isWorker() bool {
	return v.isMapping() && slices.ContainsFunc(v.fields(), func(f field) bool { return f.name == "worker" })
}

// only refuses keys beside the one that the file is about.
func (v value) only(about, what string, allowed ...string) {
	for _, f := range v.fields() {
		if f.name != about && !slices.Contains(allowed, f.name) {
			f.fail("is not for the file %s reads no table; remove it", what)
		}
	}
}

// sourced checks a file whose records are messages: nothing of it is of a table.
func (v value) sourced(c *Config) {
	v.only("source", "of a source, which", "handler", "on_dead", "rate", "abort_after", "timezone", "shutdown_timeout", "log", "metrics")
	if slices.Contains(ofTables, c.Handler.Kind) {
		v.d.failf("handler."+c.Handler.Kind, "works on rows of a table; take exec, lines or http for messages")
	}
	v.acknowledged(c, c.Source, "source.amqp")
	c.Table.Name = "messages"
}

// acknowledged refuses a handler that takes longer than the broker waits for it.
func (v value) acknowledged(c *Config, settings any, path string) {
	if s, ok := settings.(Acknowledger); ok && c.Handler.Timeout+unheld > s.Unacknowledged() {
		v.d.failf("handler.timeout", "%s is too long: the broker takes back what is not acknowledged within %s; write what it allows as %s.consumer_timeout",
			tiers.FormatDuration(c.Handler.Timeout), tiers.FormatDuration(s.Unacknowledged()), path)
	}
}

// unheld is what of a broker's patience is not left to a handler: messages wait before.
const unheld = 5 * time.Minute
