// Package config reads the configuration file: YAML in, plain structs out.
//
// It reads strictly. A key it does not know, a value of another type and a
// mapping that contradicts itself are errors, and all of them are reported at
// once, each with its line. It opens nothing but the file itself: whether the
// database, its columns and the handler's program exist is found out by those
// who use them.
//
// Each part of the file has a function that decodes it. Settings that another
// package owns are decoded by the tags of its struct ([Known]); how, is told at
// value.settings. How decoding works at all is told at decoder.
package config

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"gopkg.in/yaml.v3"

	"backlog/backlog"
	"backlog/backlog/mapping"
	"backlog/tiers"
)

// DefaultFile is the file that commands read when none is named.
const DefaultFile = "schedule.yaml"

// exampleFile is the file that errors send people to.
const exampleFile = "schedule.example.yaml"

// A Config is what a file says, completed with defaults. One that [Load]
// returns is free of contradictions.
type Config struct {
	// Database is the URL with its variables expanded. It may hold a
	// password and must not be printed.
	Database string `yaml:"database,env"`

	Name  string          // of this work, of several on one table; "": the only one
	Table mapping.Mapping // the states, too; its Zone is the timezone if the file names one

	Handler Handler
	Source  any // of messages instead of a table, of the type that its [Settings] made; nil: there is a table
	Worker  any // of another's records, which Handler handles; likewise

	MaxRecords int     `yaml:"max_records"` // per pass; 0: no cap
	AbortAfter int     `yaml:"abort_after"` // consecutive failures that end a pass; 0: never
	Rate       float64 // handler calls per second; 0: no limit
	Policy     Policy
	OnDead     OnDead // the zero OnDead if there is none
	OnOutage   OnDead // likewise

	Timezone        *time.Location // of cron tiers and time columns without their own; never nil
	State           string         `yaml:"state,env"`        // path of the state file; "": the default place, "none": do without
	ShutdownTimeout time.Duration  `yaml:"shutdown_timeout"` // what a stop grants to running handlers; 0: nothing
	Log             Log            `yaml:"log"`

	Watching map[string]any // by the names of [Known.Watching], of the types that these make

	Tiers *tiers.Schedule // never nil

	Text string // a digest of the file as it is written, by LoadFile; "": it is no regular file
}

// Log says what is logged and how.
type Log struct {
	Level  slog.Level `yaml:"level"`
	Format string     `yaml:"format" words:"auto text json"`
}

// Known are the settings that other packages own.
type Known struct {
	Policies []Settings // beside progressive
	Handlers []Settings // of `handler`
	OnDead   []Settings // of `on_dead`
	Sources  []Settings // of `source`
	Workers  []Settings // of `worker`
	Watching []Settings // keys of their own, of what shows a daemon's work

	// OfWorker says that the file is to have a worker: without one its other problems are
	// those of another command.
	OfWorker bool
}

// LoadFile reads the file at path and takes variables from the environment. An
// error that wraps [fs.ErrNotExist] says what to do about it.
func LoadFile(path string, known Known) (*Config, error) {
	// A FIFO that nobody writes to would keep a daemon that reads it again from ever
	// stopping: opened so it is empty.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, backlog.Worded(missingFile(path), err)
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	sum := sha256.New()
	c, err := Load(io.TeeReader(f, sum), path, os.LookupEnv, known)
	if info, no := f.Stat(); c != nil && no == nil && info.Mode().IsRegular() {
		c.Text = hex.EncodeToString(sum.Sum(nil))
	}
	return c, err
}

// missingFile says what to do about a file that there is not.
func missingFile(path string) string {
	text := path + ": no such file"
	if abs, err := filepath.Abs(path); err == nil && !filepath.IsAbs(path) {
		text += " in " + filepath.Dir(abs)
	}
	ext := filepath.Ext(path)
	if other := map[string]string{".yaml": ".yml", ".yml": ".yaml"}[ext]; other != "" {
		like := strings.TrimSuffix(path, ext) + other
		if _, err := os.Stat(like); err == nil {
			return text + "; there is " + like + ": rename it, or name it"
		}
	}
	return text + "; " + mapping.DidYouMeanFile(path, "write one ("+exampleFile+" shows how) or name another")
}

// Load reads a configuration from r. Errors call it name; lookup returns the
// value of an environment variable and whether it is set.
//
// If anything is wrong with the configuration, the error joins one [*Error]
// for each such thing, in the order of their lines.
func Load(r io.Reader, name string, lookup func(string) (string, bool), known Known) (*Config, error) {
	text, err := io.ReadAll(io.LimitReader(r, maxSize+1))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return parse(text, name, lookup, known, value.config)
}

// config decodes the whole file: a mapping, or just the list of tiers.
func (v value) config() *Config {
	c := &Config{ // the defaults
		Database:        "sqlite:backlog.db",
		Table:           mapping.Mapping{Name: "BACKLOG"}.WithDefaults(),
		Handler:         defaultHandler(),
		Policy:          Policy{Name: progressive},
		Timezone:        time.UTC,
		ShutdownTimeout: 30 * time.Second,
		Log:             Log{Level: slog.LevelInfo, Format: "auto"},
		Watching:        make(map[string]any),
	}
	known := v.settingsOf(c, nil)
	for _, k := range v.d.known.Watching {
		c.Watching[k.Name] = k.New()
		known[k.Name] = func(v value) { v.settings(c.Watching[k.Name], k.Without...) }
	}
	if v.d.known.OfWorker && !v.isWorker() {
		v.fail("has no worker; say where requests come from and what handles them, such as worker: {amqp: {url: …, name: orders}, handler: {exec: [./deliver.sh]}}")
		return c
	}
	switch {
	case v.isList():
		c.Tiers = v.d.value(v.node, "tiers", v.node).tiers(c.Timezone, false)
		return c
	case !v.isMapping():
		v.fail("must be a mapping (key: value) or a list of tiers, not %s", v.kind())
		return c
	}
	var list value // decoded last: cron tiers take the file's timezone
	maps.Copy(known, keys{
		"name":      func(v value) { c.Name = v.workName() },
		"table":     func(v value) { v.table(&c.Table) },
		"statuses":  func(v value) { v.statuses(&c.Table) },
		"handler":   func(v value) { c.Handler = v.handler() },
		"rate":      func(v value) { c.Rate = v.rate() },
		"policy":    func(v value) { c.Policy = v.policy() },
		"on_dead":   func(v value) { c.OnDead = v.onDead() },
		"on_outage": func(v value) { c.OnOutage = v.onDead() },
		"source": func(v value) {
			_, c.Source = v.oneKind(v.d.known.Sources, make(keys), "names no queue; add amqp: {url: …, queue: …}")
		},
		"worker":   func(v value) { c.Worker, c.Handler = v.worker() },
		"timezone": func(v value) { c.Timezone = v.location(); c.Table.Zone = c.Timezone },
		"tiers":    func(v value) { list = v },
	})
	v.object(known)
	if v.has("worker") {
		v.only("worker", "of a worker, which", "shutdown_timeout", "log", "metrics")
		return c
	}
	if v.has("source") {
		v.sourced(c)
		return c
	}
	again, ageless := c.Policy.Settings.(Refresher)
	v.acknowledged(c, c.Handler.Settings, "handler.amqp")
	v.d.misplaced("handler.input", "is what a program reads of a message, and a row is always JSON; remove it")
	if c.Handler.Kind == "amqp" && ageless {
		v.d.failf("handler.amqp", "waits for its workers, and the policy refresh has deadlines of its own; take redis, whose workers answer when they can")
	}
	if ageless {
		v.refreshing(c, again)
	} else if c.Handler.Kind == "redis" {
		v.d.failf("handler.redis", "is answered later, which only the policy refresh waits for; add policy: {refresh: {every: 2h, timeout: 1h}} or the like, or take another handler")
	}
	if v.has("tiers") {
		c.Tiers = list.tiers(c.Timezone, ageless)
	} else {
		v.d.failf("tiers", "missing; a schedule needs at least one: %s", exampleOf(ageless))
	}
	v.d.check(c)
	return c
}

// mostName is how long the name of a work is at most, in bytes: it is part of names of files.
const mostName = 64

// workName decodes a name that is good for files, locks and labels.
func (v value) workName() string {
	name := v.text()
	other := func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' && c != '_'
	}
	if strings.ContainsFunc(name, other) || len(name) > mostName {
		v.fail("%s is no name for a work on the table; take letters, digits, - and _, at most %d", mapping.Show(name), mostName)
	}
	return name
}

const progressive = "progressive"

// A Policy decides which pending records are due.
type Policy struct {
	Name     string // progressive: by age alone
	Settings any    // of the type that the [Settings] made; nil for progressive
}

// keeps returns what the policy keeps in the row, as its settings say.
func (p Policy) keeps() mapping.Policy {
	if s, ok := p.Settings.(Keeper); ok {
		return s.Keeps()
	}
	return mapping.Policy{Name: p.Name}
}

// ParsePolicy reads what the key policy of the file may hold, in one line: the
// name of a policy, or YAML such as fibonacci: {unit: 5m}, with braces around it
// or without. An error joins one for each thing that is wrong.
func ParsePolicy(text string, known ...Settings) (p Policy, err error) {
	var isYAML bool
	p, err = parse([]byte(text), "", nil, Known{Policies: known}, func(v value) Policy {
		isYAML = true
		return v.policy()
	})
	if !isYAML {
		err = errors.New("neither the name of a policy nor one with settings; write fibonacci or 'fibonacci: {unit: 5m}'")
	}
	return p, err
}

// policy decodes the name of a policy, or a mapping from it to its settings.
func (v value) policy() (p Policy) {
	known := map[string]Settings{progressive: {New: func() any { return &struct{}{} }}}
	for _, k := range v.d.known.Policies {
		known[k.Name] = k
	}
	words := slices.Sorted(maps.Keys(known))
	name, settings := v, v
	switch {
	case v.isMapping():
		fields := v.fields()
		if len(fields) != 1 {
			v.fail("must name one policy, not %d", len(fields))
			return p
		}
		name.node, settings = &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: fields[0].name}, fields[0].value
	case v.isText():
		settings.node = &yaml.Node{Kind: yaml.MappingNode} // all at their defaults
	default:
		v.mismatch("the name of a policy (" + strings.Join(words, ", ") + ")")
		return p
	}
	if p.Name = name.oneOf("policy", words...); p.Name == "" {
		return p
	}
	s := known[p.Name].New()
	if !settings.shortList(s) {
		settings.settings(s)
	}
	if p.Name != progressive {
		p.Settings = s
	}
	return p
}

// shortList decodes a list into the only list of durations that s has, if it has
// one: that alone will do.
func (v value) shortList(s any) bool {
	for _, f := range fieldsOf(s) {
		if _, ok := f.field.Addr().Interface().(*[]time.Duration); ok && v.isList() {
			before := len(v.d.errs)
			if v.field(f, "", ""); len(v.d.errs) == before {
				s.(Checker).Check(func(_, problem string) { v.fail("%s", problem) })
			}
			return true
		}
	}
	return false
}
