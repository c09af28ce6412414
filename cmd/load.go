package cmd

import (
	"errors"
	"fmt"
	"io/fs"

	"backlog/backlog/config"
)

// load reads the configuration and puts the flags on top.
func (g *globals) load() (*config.Config, error) {
	if g.Config == "" {
		return nil, usagef("--config: names no file")
	}
	c, err := config.LoadFile(g.Config, policySpecs()...)
	if err == nil {
		_, err = newPolicy(c.Policy)
	} else if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%w with --config", err)
	}
	if err != nil {
		return nil, usageError{err}
	}
	for _, name := range []string{"database", "table"} {
		if g.isEmpty(name) { // it may be a variable of the shell that is not set
			return nil, usagef("--%s: names none", name)
		}
	}
	if g.Database != "" {
		c.Database = g.Database
	}
	if g.Table != "" {
		c.Table.Name = g.Table
	}
	if g.LogLevel != "" {
		if err := c.Log.Level.UnmarshalText([]byte(g.LogLevel)); err != nil {
			return nil, usagef("--log-level: %q is not one of debug, info, warn, error", g.LogLevel)
		}
	}
	switch g.LogFormat {
	case "":
	case "auto", "text", "json":
		c.Log.Format = g.LogFormat
	default:
		return nil, usagef("--log-format: %q is not one of auto, text, json", g.LogFormat)
	}
	return c, nil
}

// isEmpty reports whether the flag was given with nothing in it.
func (g *globals) isEmpty(name string) bool {
	if g.flags == nil {
		return false
	}
	f := g.flags.Lookup(name)
	return f.Changed && f.Value.String() == ""
}
