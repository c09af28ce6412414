// Package mail writes mails: to those whose records are dead.
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

// Settings are what the configuration says of mails. SMTP may hold a password and must
// not be printed.
//
// In To, Subject and Text {column} stands for the record's value, {id} for its key,
// {reason} for why it is dead, {error} for its last error, and {{ and }} for braces.
type Settings struct {
	// SMTP is smtp://user:password@host:port, where STARTTLS is insisted on, or
	// smtps:// for TLS from the first byte. The ports are 587 and 465 if none is given.
	SMTP     string `yaml:"smtp,env" required:"smtp://user:${PASSWORD}@mail.example.com:587"`
	From     string `yaml:"from" required:"backlog@example.com"`
	To       string `yaml:"to" required:"'{email}'"` // one address
	Subject  string `yaml:"subject" required:"Record {id} was given up"`
	Text     string `yaml:"text" required:"'It failed: {error}'"`
	CAFile   string `yaml:"ca_file,env"` // PEM: only these authorities are trusted; "": the system's
	Insecure bool   `yaml:"insecure"`    // without TLS, on this machine
}

// Check reports what is wrong with the settings, and nothing of what is secret. It
// opens no file.
func (s *Settings) Check(fail func(field, problem string)) {
	if u, err := s.server(); err != nil && s.SMTP != "" {
		fail("smtp", err.Error())
	} else if err == nil && s.Insecure && u.Hostname() != "localhost" && !net.ParseIP(u.Hostname()).IsLoopback() {
		fail("insecure", "is only for a server on this machine, such as smtp://localhost:25: anybody on the way could read mails and the password; remove it")
	}
	if _, err := mail.ParseAddress(s.From); err != nil && s.From != "" {
		fail("from", "is no address; write one such as backlog@example.com, or Backlog <backlog@example.com>")
	}
	for i, text := range s.texts() {
		field := [...]string{"to", "subject", "text"}[i]
		columns, err := setting.Columns(text)
		if err == nil && field == "to" && text != "" && len(columns) == 0 {
			_, err = address(text)
		}
		if err == nil && field == "subject" && strings.ContainsFunc(text, isControl) {
			err = errors.New("has a line break; a subject is one line")
		}
		if err != nil {
			fail(field, err.Error())
		}
	}
}

// texts are those with placeholders.
func (s *Settings) texts() []string { return []string{s.To, s.Subject, s.Text} }

var usualPorts = map[string]string{"smtp": "587", "smtps": "465"}

// server returns the URL of the server with its port. Its error shows nothing of it.
func (s *Settings) server() (*url.URL, error) {
	u, err := url.Parse(s.SMTP)
	if err != nil || usualPorts[u.Scheme] == "" || u.Hostname() == "" || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" {
		return nil, errors.New("is no mail server; write smtp://user:${PASSWORD}@mail.example.com:587, or smtps:// for TLS from the first byte; in a password @ is %40, / is %2F and so on")
	}
	if u.Port() == "" {
		u.Host = net.JoinHostPort(u.Hostname(), usualPorts[u.Scheme])
	}
	if n, err := strconv.ParseUint(u.Port(), 10, 16); err != nil || n == 0 {
		return nil, errors.New("has a port beyond 65535; correct it")
	}
	return u, nil
}

func isControl(r rune) bool { return r < ' ' || r == 0x7f }

// address returns the only one in a text, which may be a record's.
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

// own are the placeholders that are no columns.
var own = []string{"id", "reason", "error"}

// expand returns the text for r, with nothing for NULL.
func expand(text string, r *backlog.Record) (string, error) {
	return setting.Fill(text, func(name, _ string) (string, error) {
		switch name {
		case "id":
			return r.Key.String(), nil
		case "error":
			return r.Error, nil
		case "reason":
			if r.Memory != nil && r.Memory.Reason != "" {
				return r.Memory.Reason, nil // the sentence for the customer
			}
			return r.Reason, nil
		}
		value, _, err := setting.Text(r, name)
		return value, err
	})
}
