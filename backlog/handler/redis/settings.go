// Package redis hands records over to workers by lists in a Redis, and hears of them
// again by others.
package redis

import (
	"crypto/tls"
	"errors"
	"fmt"
	"slices"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/redis/go-redis/v9/maintnotifications"

	"backlog/backlog/mapping"
)

// Settings are what the configuration says of the lists. URL may hold a password and
// must not be printed.
type Settings struct {
	// URL is redis://user:password@host:port/database, rediss:// with TLS, or
	// unix://path?db=0, with the options of go-redis in its query.
	URL string `yaml:"url,env" required:"redis://127.0.0.1:6379/0"`

	// Input is the list that workers take requests from, Output the one that they
	// put answers into. They have no default: two tables with the same lists would
	// drop each other's answers.
	Input  string `yaml:"input" required:"orders-input"`
	Output string `yaml:"output" required:"orders-output"`

	Fields  mapping.Names `yaml:"fields"`                                          // of requests and answers, in the order below
	Columns []string      `yaml:"columns,names" want:"a column or a list of them"` // in a request; nil: all that records have
}

// The fields of requests and answers that can have other names.
const (
	id = iota
	attemptIn
	attemptOut
	attemptNo
	deadline
)

// badSuffix makes the name of the list for what is no answer.
const badSuffix = "-bad"

// NewSettings returns the defaults.
func NewSettings() *Settings {
	return &Settings{Fields: mapping.Names{{"id", "id"}, {"attempt_uid", "attempt_in"}, {"attempt_uid", "attempt_out"}, {"attempt_no", "attempt_no"}, {"deadline", "deadline"}}}
}

// Check reports what is wrong with the settings, and nothing of what is secret.
func (s *Settings) Check(fail func(field, problem string)) {
	if _, err := s.options(); err != nil && s.URL != "" {
		fail("url", err.Error())
	}
	if s.Input != "" && (s.Input == s.Output || s.Input == s.Output+badSuffix) {
		fail("input", "is a list that answers come to; workers need one of their own")
	}
	names := make(map[string]string)
	for i, f := range s.Fields {
		switch other, twice := names[f[0]]; {
		case f[0] == "":
			fail("fields."+f[1], "is empty; name a field")
		case i == attemptOut: // of answers
			if slices.Contains([]string{"type", "message", "error"}, f[0]) {
				fail("fields."+f[1], f[0]+" is another field of answers; choose another name")
			}
		case twice:
			fail("fields."+f[1], fmt.Sprintf("%s is the name of %s, too; choose another", mapping.Show(f[0]), other))
		default:
			names[f[0]] = f[1]
		}
	}
	for i, c := range s.Columns {
		if other, taken := names[c]; taken {
			fail(fmt.Sprintf("columns[%d]", i), fmt.Sprintf("%s is a field of requests already; give that another name, such as fields: {%s: record_%s}", mapping.Show(c), other, c))
		}
	}
}

// options returns how to connect. Its error shows nothing of the URL.
func (s *Settings) options() (*redis.Options, error) {
	logging.Disable() // go-redis would write to standard error what its errors say as well
	o, err := redis.ParseURL(s.URL)
	if err != nil {
		return nil, errors.New("is no URL of a Redis; write one such as redis://user:${PASSWORD}@127.0.0.1:6379/0, or rediss:// for TLS; in a password @ is %40, / is %2F and so on")
	}
	// What was sent may have been done: an answer that got lost must not push a
	// request twice.
	o.MaxRetries, o.DialerRetries = -1, 1
	o.ContextTimeoutEnabled = true
	o.DisableIdentity = true
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	if o.TLSConfig != nil {
		o.TLSConfig.MinVersion = tls.VersionTLS12
	}
	return o, nil
}
