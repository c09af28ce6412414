// Package config reads the configuration file: YAML in, plain structs out.
//
// It is strict: unknown keys, values of a wrong type and settings that contradict
// each other are errors. All errors are reported at once, each with its line. It
// opens only the file itself. Whether the database, its columns and the handler's
// program exist is checked by the packages that use them.
//
// Each part of the file has a method that decodes it; decoder explains how. Settings
// that another package owns ([Known]) are decoded into its struct by tags;
// value.settings explains the tags.
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

// DefaultDatabase is the URL of the database if none is configured.
const DefaultDatabase = "sqlite:backlog.db"

// exampleFile is the example to which errors refer.
const exampleFile = "schedule.example.yaml"

// A Config is what a file says, completed with defaults. One that [Load]
// returns is free of contradictions.
type Config struct {
	// Database is the URL with its variables expanded. It may hold a
	// password and must not be printed.
	Database string `yaml:"database,env"`

	Name  string          // tells several configurations of one table apart; "": there is only one
	Table mapping.Mapping // with the states; its Zone is the timezone if the file names one

	Handler Handler
	Source  any // settings of a queue instead of a table, of the type that its [Settings] made; nil: there is a table
	Worker  any // settings of a worker, whose requests Handler handles, of the type that its [Settings] made; nil: no worker

	MaxRecords int     `yaml:"max_records"` // per pass; 0: no cap
	AbortAfter int     `yaml:"abort_after"` // consecutive failures that end a pass; 0: never
	Rate       float64 // handler calls per second; 0: no limit
	Policy     Policy
	OnDead     OnDead // the zero OnDead if it is not configured
	OnOutage   OnDead // the zero OnDead if it is not configured

	Timezone        *time.Location // of cron tiers and time columns without their own; never nil
	State           string         `yaml:"state,env"`        // path of the state file; "": the default place, "none": no file
	ShutdownTimeout time.Duration  `yaml:"shutdown_timeout"` // how long a stop waits for running handlers; 0: not at all
	Log             Log            `yaml:"log"`

	Observers map[string]any // settings by the names of [Known.Observers], of the types that these make

	Tiers *tiers.Schedule // nil with a source or a worker: they have no ticks

	Digest string // of the file's text, set by LoadFile; "": it is not a regular file
}

// Log says what is logged and how.
type Log struct {
	Level  slog.Level `yaml:"level"`
	Format string     `yaml:"format" words:"auto text json"`
}

// Known are the settings that other packages own.
type Known struct {
	Policies  []Settings // all but progressive
	Handlers  []Settings // of `handler`
	OnDead    []Settings // of `on_dead`
	Sources   []Settings // of `source`
	Workers   []Settings // of `worker`
	Observers []Settings // of pages, metrics and pings, each a key at the top

	// OfWorker says that the file must have a worker. Without one, that is the only error: the
	// file is meant for another command.
	OfWorker bool
}

// LoadFile reads the file at path and takes variables from the environment. An
// error that wraps [fs.ErrNotExist] says what to do about it.
func LoadFile(path string, known Known) (*Config, error) {
	// Opening a FIFO without a writer would block for ever, also at a reload, and the daemon could
	// not stop. Opened in this way it is empty.
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
	info, statErr := f.Stat()
	if c != nil && statErr == nil && info.Mode().IsRegular() {
		c.Digest = hex.EncodeToString(sum.Sum(nil))
	}
	return c, err
}

// missingFile is the error text of a file that does not exist. It says what to do.
func missingFile(path string) string {
	text := path + ": no such file"
	if abs, err := filepath.Abs(path); err == nil && !filepath.IsAbs(path) {
		text += " in " + filepath.Dir(abs)
	}
	similar := ""
	if base, ok := strings.CutSuffix(path, ".yaml"); ok {
		similar = base + ".yml"
	} else if base, ok := strings.CutSuffix(path, ".yml"); ok {
		similar = base + ".yaml"
	}
	if similar != "" {
		if _, err := os.Stat(similar); err == nil {
			return text + "; there is " + similar + ": rename it, or name it"
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
		Database:        DefaultDatabase,
		Table:           mapping.Mapping{Name: "BACKLOG"}.WithDefaults(),
		Handler:         defaultHandler(),
		Policy:          Policy{Name: progressive},
		Timezone:        time.UTC,
		ShutdownTimeout: 30 * time.Second,
		Log:             Log{Level: slog.LevelInfo, Format: "auto"},
		Observers:       make(map[string]any),
	}
	known := v.settingsOf(c, nil)
	for _, k := range v.d.known.Observers {
		c.Observers[k.Name] = k.New()
		known[k.Name] = func(v value) { v.settings(c.Observers[k.Name], k.Without...) }
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
		"worker": func(v value) { c.Worker, c.Handler = v.worker() },
		"timezone": func(v value) {
			c.Timezone = v.location()
			c.Table.Zone = c.Timezone
		},
		"tiers": func(v value) { list = v },
	})
	v.object(known)
	if v.has("worker") {
		v.rejectOthers("worker", "of a worker, which", "shutdown_timeout", "log", "metrics")
		return c
	}
	if v.has("source") {
		v.checkSource(c)
		return c
	}
	refresher, ageless := c.Policy.Settings.(Refresher)
	v.checkAckTimeout(c, c.Handler.Settings, "handler.amqp")
	v.d.rejectKey("handler.input", "is what a program reads of a message, and a row is always JSON; remove it")
	if c.Handler.Kind == "amqp" && ageless {
		v.d.failf("handler.amqp", "waits for its workers, and the policy refresh has deadlines of its own; take redis, whose workers answer when they can")
	}
	if ageless {
		v.completeRefresh(c, refresher)
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

// maxNameLength bounds the key name, in bytes: it becomes part of file names.
const maxNameLength = 64

// workName decodes the key name, which must be fit for files, locks and labels.
func (v value) workName() string {
	name := v.text()
	isForbidden := func(c rune) bool {
		isLetter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
		isDigit := c >= '0' && c <= '9'
		return !isLetter && !isDigit && c != '-' && c != '_'
	}
	if strings.ContainsFunc(name, isForbidden) || len(name) > maxNameLength {
		v.fail("%s is no name for a work on the table; take letters, digits, - and _, at most %d", mapping.Show(name), maxNameLength)
	}
	return name
}

const progressive = "progressive"

// A Policy decides which pending records are due.
type Policy struct {
	Name     string // progressive: by age alone
	Settings any    // of the type that the [Settings] made; nil for progressive
}

// keeps returns the columns in which the policy keeps its state.
func (p Policy) keeps() mapping.Policy {
	if s, ok := p.Settings.(Keeper); ok {
		return s.Keeps()
	}
	return mapping.Policy{Name: p.Name}
}

// ParsePolicy parses a policy as the file writes it under the key policy, in one line:
// its name, or YAML such as fibonacci: {unit: 5m}, with or without braces around
// it. An error joins one for each problem.
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
	name := v // the value that has the name
	settings := v
	switch {
	case v.isMapping():
		fields := v.fields()
		if len(fields) != 1 {
			v.fail("must name one policy, not %d", len(fields))
			return p
		}
		name.node = &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: fields[0].name}
		settings = fields[0].value
	case v.isText():
		settings.node = &yaml.Node{Kind: yaml.MappingNode} // empty: all settings have their defaults
	default:
		v.mismatch("the name of a policy (" + strings.Join(words, ", ") + ")")
		return p
	}
	p.Name = name.oneOf("policy", words...)
	if p.Name == "" {
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

// shortList decodes a list into the field of s that is a list of durations, if s has one. It
// is the short form of a mapping with that key alone. It reports whether v had this form.
func (v value) shortList(s any) bool {
	for _, f := range fieldsOf(s) {
		if _, ok := f.field.Addr().Interface().(*[]time.Duration); ok && v.isList() {
			before := len(v.d.errs)
			v.field(f, "", "")
			if len(v.d.errs) == before {
				s.(Checker).Check(func(_, problem string) { v.fail("%s", problem) })
			}
			return true
		}
	}
	return false
}
