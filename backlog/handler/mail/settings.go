// Package mail is the handler that sends a mail about each dead record.
package mail

import (
	"errors"
	"net"
	"net/mail"
	"net/url"
	"strconv"
	"strings"

	"backlog/backlog"
	"backlog/backlog/handler/setting"
)

// Settings are the handler's part of the configuration file. SMTP may hold a password and
// must not be printed.
//
// To, Subject and Text may have placeholders: {column} is the record's value, {id} its key,
// {reason} why it is dead and {error} its last error. {{ and }} are braces.
type Settings struct {
	// SMTP is smtp://user:password@host:port, which requires STARTTLS unless Insecure is
	// set, or smtps:// for TLS from the first byte. The default ports are 587 and 465.
	SMTP     string `yaml:"smtp,env" required:"smtp://user:${PASSWORD}@mail.example.com:587"`
	From     string `yaml:"from" required:"backlog@example.com"`
	To       string `yaml:"to" required:"'{email}'"` // one address
	Subject  string `yaml:"subject" required:"Record {id} was given up"`
	Text     string `yaml:"text" required:"'It failed: {error}'"`
	CAFile   string `yaml:"ca_file,env"` // PEM: only these authorities are trusted; "": the system's
	Insecure bool   `yaml:"insecure"`    // no TLS; for a server on this machine only
}

// Check calls fail with each problem of the settings. Its texts show no secret. It opens no
// file.
func (s *Settings) Check(fail func(field, problem string)) {
	if u, err := s.server(); err != nil && s.SMTP != "" {
		fail("smtp", err.Error())
	} else if err == nil && s.Insecure && u.Hostname() != "localhost" && !net.ParseIP(u.Hostname()).IsLoopback() {
		fail("insecure", "is only for a server on this machine, such as smtp://localhost:25: anybody on the way could read mails and the password; remove it")
	}
	if _, err := mail.ParseAddress(s.From); err != nil && s.From != "" {
		fail("from", "is no address; write one such as backlog@example.com, or Backlog <backlog@example.com>")
	}
	columns, err := setting.Columns(s.To)
	if err == nil && s.To != "" && len(columns) == 0 {
		_, err = address(s.To)
	}
	if err != nil {
		fail("to", err.Error())
	}
	_, err = setting.Columns(s.Subject)
	if err == nil && strings.ContainsFunc(s.Subject, isControl) {
		err = errors.New("has a line break; a subject is one line")
	}
	if err != nil {
		fail("subject", err.Error())
	}
	if _, err := setting.Columns(s.Text); err != nil {
		fail("text", err.Error())
	}
}

var defaultPorts = map[string]string{"smtp": "587", "smtps": "465"}

// server returns the URL of the server with its port. Its error shows nothing of the URL,
// which may hold a password.
func (s *Settings) server() (*url.URL, error) {
	u, err := url.Parse(s.SMTP)
	if err != nil || defaultPorts[u.Scheme] == "" || u.Hostname() == "" || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" {
		return nil, errors.New("is no mail server; write smtp://user:${PASSWORD}@mail.example.com:587, or smtps:// for TLS from the first byte; in a password @ is %40, / is %2F and so on")
	}
	if u.Port() == "" {
		u.Host = net.JoinHostPort(u.Hostname(), defaultPorts[u.Scheme])
	}
	if n, err := strconv.ParseUint(u.Port(), 10, 16); err != nil || n == 0 {
		return nil, errors.New("has a port beyond 65535; correct it")
	}
	return u, nil
}

func isControl(r rune) bool { return r < ' ' || r == 0x7f }

// address parses a text, which may come from a record, as exactly one address.
func address(text string) (*mail.Address, error) {
	if strings.ContainsFunc(text, isControl) {
		return nil, errors.New("has a line break or the like, which no address has; no mail is sent")
	}
	a, err := mail.ParseAddress(text)
	if err != nil {
		return nil, errors.New("is not one address; write it as name@example.com")
	}
	return a, nil
}

// builtin are the placeholders that stand for no column.
var builtin = []string{"id", "reason", "error"}

// expand replaces the placeholders of a text by the values of r. NULL becomes nothing.
func expand(text string, r *backlog.Record) (string, error) {
	return setting.Fill(text, func(name, _ string) (string, error) {
		switch name {
		case "id":
			return r.Key.String(), nil
		case "error":
			return r.Error, nil
		case "reason":
			if r.Memory != nil && r.Memory.Reason != "" {
				return r.Memory.Reason, nil // under the refresh policy: the sentence for the customer
			}
			return r.Reason, nil
		}
		value, _, err := setting.Text(r, name)
		return value, err
	})
}
