// Package config reads the configuration file: YAML in, plain structs out.
//
// It reads strictly. A key it does not know, a value of another type and a
// mapping that contradicts itself are errors, and all of them are reported at
// once, each with its line. It opens nothing but the file itself: whether the
// database, its columns and the handler's program exist is found out by those
// who use them.
//
// Each part of the file has a struct and a function that decodes it, side by
// side in a file of their own. How decoding works is told at decoder.
package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

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
	Database string

	Table    Table
	Statuses Statuses
	Handler  Handler

	MaxRecords int     // per pass; 0: no cap
	AbortAfter int     // consecutive failures that end a pass; 0: never
	Rate       float64 // handler calls per second; 0: no limit
	Policy     Policy
	OnDead     OnDead // the zero OnDead if there is none

	Timezone        *time.Location // of cron tiers and time columns without their own; never nil
	TimezoneGiven   bool           // the author named it
	State           string         // path of the state file; "": the default place, "none": do without
	ShutdownTimeout time.Duration  // what a stop grants to running handlers; 0: nothing
	Log             Log

	Tiers *tiers.Schedule // never nil
}

// Log says what is logged and how.
type Log struct {
	Level  slog.Level
	Format string // auto, text or json
}

// LoadFile reads the file at path and takes variables from the environment.
// Known are the policies there are, beside progressive. An error that wraps
// [fs.ErrNotExist] says what to do about it.
func LoadFile(path string, known ...PolicySpec) (*Config, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &missingFile{path, err}
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return Load(f, path, os.LookupEnv, known...)
}

// missingFile says in people's words that there is no file.
type missingFile struct {
	path string
	err  error
}

func (e *missingFile) Error() string {
	where := ""
	if abs, err := filepath.Abs(e.path); err == nil && !filepath.IsAbs(e.path) {
		where = " in " + filepath.Dir(abs)
	}
	if like := e.like(); like != "" {
		return fmt.Sprintf("%s: no such file%s; there is %s: rename it, or name it", e.path, where, like)
	}
	return fmt.Sprintf("%s: no such file%s; write one (%s shows how) or name another", e.path, where, exampleFile)
}

// like returns a file beside it whose name ends in the other way for YAML, "" if
// there is none.
func (e *missingFile) like() string {
	other := map[string]string{".yaml": ".yml", ".yml": ".yaml"}
	ext := filepath.Ext(e.path)
	like := strings.TrimSuffix(e.path, ext) + other[ext]
	if _, err := os.Stat(like); err != nil || other[ext] == "" {
		return ""
	}
	return like
}

func (e *missingFile) Unwrap() error { return e.err }

// Load reads a configuration from r. Errors call it name; lookup returns the
// value of an environment variable and whether it is set. Known are the policies
// there are, beside progressive.
//
// If anything is wrong with the configuration, the error joins one [*Error]
// for each such thing, in the order of their lines.
func Load(r io.Reader, name string, lookup func(string) (string, bool), known ...PolicySpec) (*Config, error) {
	text, err := io.ReadAll(io.LimitReader(r, maxSize+1))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	d := newDecoder(name, lookup, known)
	var c *Config
	if root, ok := d.parse(text); ok {
		c = root.config()
	}
	if err := d.err(); err != nil {
		return nil, err
	}
	return c, nil
}

func defaults() *Config {
	return &Config{
		Database:        "sqlite:backlog.db",
		Table:           defaultTable(),
		Statuses:        defaultStatuses(),
		Handler:         defaultHandler(),
		Policy:          Policy{Name: progressive},
		Timezone:        time.UTC,
		ShutdownTimeout: 30 * time.Second,
		Log:             Log{Level: slog.LevelInfo, Format: "auto"},
	}
}

// config decodes the whole file: a mapping, or just the list of tiers.
func (v value) config() *Config {
	c := defaults()
	if v.isList() {
		c.Tiers = v.at("tiers").tiers(c.Timezone)
		return c
	}
	var list value // decoded last: cron tiers take the file's timezone
	v.object(keys{
		"database":         func(v value) { c.Database = v.expanded() },
		"table":            func(v value) { c.Table = v.table() },
		"statuses":         func(v value) { c.Statuses = v.statuses() },
		"handler":          func(v value) { c.Handler = v.handler() },
		"max_records":      func(v value) { c.MaxRecords = v.integer(0) },
		"abort_after":      func(v value) { c.AbortAfter = v.integer(0) },
		"rate":             func(v value) { c.Rate = v.rate() },
		"policy":           func(v value) { c.Policy = v.policy() },
		"on_dead":          func(v value) { c.OnDead = v.onDead() },
		"timezone":         func(v value) { c.Timezone, c.TimezoneGiven = v.location(), true },
		"state":            func(v value) { c.State = v.expanded() },
		"shutdown_timeout": func(v value) { c.ShutdownTimeout = v.durationFrom(0) },
		"log":              func(v value) { c.Log = v.log() },
		"tiers":            func(v value) { list = v },
	})
	if v.has("tiers") {
		c.Tiers = list.tiers(c.Timezone)
	} else {
		v.d.failf("tiers", "missing; a schedule needs at least one: %s", tierExample)
	}
	v.d.check(c)
	return c
}

func (v value) log() Log {
	log := defaults().Log
	v.object(keys{
		"level":  func(v value) { log.Level = levels[v.oneOf("level", "debug", "info", "warn", "error")] },
		"format": func(v value) { log.Format = v.oneOf("format", "auto", "text", "json") },
	})
	return log
}

var levels = map[string]slog.Level{
	"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError,
}
