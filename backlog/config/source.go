package config

import (
	"cmp"
	"slices"
	"time"

	"backlog/tiers"
)

// A Source is where messages come from that no table holds.
type Source struct {
	Kind     string
	Settings any // of the type that the [Settings] made
}

func (v value) source() (s Source) {
	s.Kind, s.Settings = v.oneKind(v.d.known.Sources, make(keys), "names no queue; add amqp: {url: …, queue: …}")
	return s
}

// A Worker is the broker of requests that another process has dispatched, and what
// handles them.
type Worker struct {
	Source
	Handler Handler
}

func (v value) worker() (w Worker) {
	w.Handler = defaultHandler()
	concurrency := 0
	w.Kind, w.Settings = v.oneKind(v.d.known.Workers, keys{
		"handler":     func(v value) { w.Handler = v.handler() },
		"concurrency": func(v value) { concurrency = v.integer(1) },
	}, "names no broker; add amqp: {url: …, name: …}")
	w.Handler.Concurrency, w.Handler.Timeout = cmp.Or(concurrency, w.Handler.Concurrency), 0
	if v.d.has("worker.handler.timeout") {
		v.d.failf("worker.handler.timeout", "stands in the daemon's file, which sends it with each record; remove it")
	}
	if v.d.has("worker.handler.input") {
		v.d.failf("worker.handler.input", "is what a program reads of a message, and a record is always JSON; remove it")
	}
	switch kind := w.Handler.Kind; kind {
	case "sql", "redis", "amqp":
		v.d.failf(join(v.path, "handler."+kind), "does not work in a worker; take exec, lines or http")
	case "":
		if !v.has("handler") {
			v.fail("has no handler; add handler: {exec: [./deliver.sh]}")
		}
	}
	return w
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
	v.only("source", "of a source, which", "handler", "on_dead", "rate", "abort_after", "timezone", "shutdown_timeout", "log")
	switch kind := c.Handler.Kind; kind {
	case "sql", "redis", "amqp":
		v.d.failf("handler."+kind, "works on rows of a table; take exec, lines or http for messages")
	}
	v.acknowledged(c, c.Source.Settings, "source.amqp")
	c.Table.Name = "messages"
}

// sourceless checks a file whose records are rows.
func (v value) sourceless(c *Config) {
	v.acknowledged(c, c.Handler.Settings, "handler.amqp")
	if v.d.has("handler.input") {
		v.d.failf("handler.input", "is what a program reads of a message, and a row is always JSON; remove it")
	}
}

// acknowledged refuses a handler that takes longer than the broker waits for it.
func (v value) acknowledged(c *Config, settings any, path string) {
	if s, ok := settings.(interface{ Unacknowledged() time.Duration }); ok && c.Handler.Timeout+unheld > s.Unacknowledged() {
		v.d.failf("handler.timeout", "%s is too long: the broker takes back what is not acknowledged within %s; write what it allows as %s.consumer_timeout",
			tiers.FormatDuration(c.Handler.Timeout), tiers.FormatDuration(s.Unacknowledged()), path)
	}
}

// unheld is what of a broker's patience is not left to a handler: messages wait before.
const unheld = 5 * time.Minute
