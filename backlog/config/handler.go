package config

import (
	"cmp"
	"slices"
	"time"

	"backlog/tiers"
)

// A Handler says what processes records, and how many at a time.
type Handler struct {
	Kind     string // such as exec; "": the file has no handler, and the other fields are defaults
	Settings any    // of the type that the [Settings] made

	Timeout time.Duration `yaml:"timeout" min:"1ms"` // of one attempt

	// Concurrency is how many records are processed at a time, from 1 to 100,000. If the
	// settings are [Bounded], it is at most their InFlight.
	Concurrency int `yaml:"concurrency" min:"1" max:"100000" why:"so many records are never processed at a time"`

	// Trace is the flag of the traceparent that the handler gets of each attempt, see [Handler.Traced].
	Trace string `yaml:"trace" words:"off sampled unsampled"` // "": off
}

// Traced reports whether attempts have a traceparent.
func (h *Handler) Traced() bool { return h.Trace == "sampled" || h.Trace == "unsampled" }

func defaultHandler() Handler { return Handler{Timeout: 30 * time.Second, Concurrency: 4} }

func (v value) handler() Handler {
	h := defaultHandler()
	if v.isText() {
		v.mismatch("a mapping such as {exec: [./deliver.sh]}")
		return h
	}
	h.Kind, h.Settings = v.oneKind(v.d.known.Handlers, v.settingsOf(&h, nil), "nothing to run; add exec: [./deliver.sh], or lines, http, sql or redis")
	if h.Kind == "sql" && h.Traced() {
		v.d.failf(join(v.path, "trace"), "statements call no service to which a trace could go on; remove it")
	}
	if bounded, ok := h.Settings.(Bounded); ok {
		if most := bounded.InFlight(); !v.has("concurrency") || most < h.Concurrency {
			h.Concurrency = max(1, most)
		}
	}
	return h
}

// OnDead says what is called for each record that becomes dead or, as on_outage, when an outage
// begins and ends.
type OnDead struct {
	Kind     string // "": nothing is called
	Settings any
	Timeout  time.Duration `yaml:"timeout" min:"1ms"`
}

func (v value) onDead() OnDead {
	o := OnDead{Timeout: defaultHandler().Timeout}
	o.Kind, o.Settings = v.oneKind(v.d.known.OnDead, v.settingsOf(&o, nil), "nothing to run; add exec: [./tell.sh], or http or mail")
	return o
}

// tableHandlers are the kinds of handlers that work with rows of a table.
var tableHandlers = []string{"sql", "redis", "amqp"}

// worker decodes a worker: the broker with the requests of another process, and the handler
// for them.
func (v value) worker() (settings any, h Handler) {
	h = defaultHandler()
	var concurrency int
	_, settings = v.oneKind(v.d.known.Workers, keys{
		"handler":     func(v value) { h = v.handler() },
		"concurrency": func(v value) { concurrency = v.integer(1) },
	}, "names no broker; add amqp: {url: …, name: …}")
	h.Concurrency = cmp.Or(concurrency, h.Concurrency)
	h.Timeout = 0
	v.d.rejectKey("worker.handler.timeout", "stands in the daemon's file, which sends it with each record; remove it")
	v.d.rejectKey("worker.handler.trace", "stands in the daemon's file, which sends the traceparent with each record; remove it")
	v.d.rejectKey("worker.handler.input", "is what a program reads of a message, and a record is always JSON; remove it")
	if slices.Contains(tableHandlers, h.Kind) {
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

// rejectOthers notes an error for every key but main, which the file is about, and those allowed. what
// describes the file.
func (v value) rejectOthers(main, what string, allowed ...string) {
	for _, f := range v.fields() {
		if f.name != main && !slices.Contains(allowed, f.name) {
			f.fail("is not for the file %s reads no table; remove it", what)
		}
	}
}

// checkSource checks a file whose records are messages. It may have no settings of a table.
func (v value) checkSource(c *Config) {
	v.rejectOthers("source", "of a source, which", "handler", "on_dead", "rate", "abort_after", "timezone", "shutdown_timeout", "log", "metrics")
	if slices.Contains(tableHandlers, c.Handler.Kind) {
		v.d.failf("handler."+c.Handler.Kind, "works on rows of a table; take exec, lines or http for messages")
	}
	v.checkAckTimeout(c, c.Source, "source.amqp")
	c.Table.Name = "messages"
}

// checkAckTimeout notes an error if the handler may take longer than the broker waits for an
// acknowledgement.
func (v value) checkAckTimeout(c *Config, settings any, path string) {
	s, ok := settings.(Acknowledger)
	if ok && c.Handler.Timeout+ackMargin > s.Unacknowledged() {
		v.d.failf("handler.timeout", "%s is too long: the broker takes back what is not acknowledged within %s; write what it allows as %s.consumer_timeout",
			tiers.FormatDuration(c.Handler.Timeout), tiers.FormatDuration(s.Unacknowledged()), path)
	}
}

// ackMargin is the part of the broker's time that a handler cannot use, because messages wait before they
// are handled.
const ackMargin = 5 * time.Minute
