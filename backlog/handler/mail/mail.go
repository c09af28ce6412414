package mail

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/wneessen/go-mail"

	"backlog/backlog"
	"backlog/backlog/handler/setting"
	"backlog/backlog/mapping"
)

// A Handler sends one mail for each record. It is meant for dead records, as
// [backlog.Engine.OnDead]. A mail that the server does not take is tried up to
// three times; a permanent refusal ends the tries. If the server's answer is lost, the mail
// may be sent twice.
//
// Methods may be called concurrently. A Handler must not be changed after the first
// call.
type Handler struct {
	Settings

	Log *slog.Logger // logs recipient and subject of each mail at DEBUG; nil: no log
}

var _ backlog.ConfiguredHandler = (*Handler)(nil)

const (
	maxTries      = 3
	retryPause    = time.Second      // after a failed try
	serverTimeout = 15 * time.Second // for each answer of the server
)

// Prepare returns what is wrong with the settings and the file that they name, with a hint.
// Unlike Check it uses no network.
func (h *Handler) Prepare() error {
	_, err := h.client()
	return err
}

// Check connects to the server, logs in, and returns why mails could not be sent.
func (h *Handler) Check(ctx context.Context) error {
	c, err := h.client()
	if err != nil {
		return err
	}
	if err := c.DialWithContext(ctx); err != nil {
		return fmt.Errorf("mail: %s: %w; is smtp right, and does it offer STARTTLS?", c.ServerAddr(), err)
	}
	return c.Close()
}

// Describe implements [backlog.ConfiguredHandler]. Its Columns are those that mails need.
func (h *Handler) Describe() backlog.Description {
	u, _ := h.server() // Prepare has returned the errors of URL and texts
	names, _ := setting.Columns(h.To + " " + h.Subject + " " + h.Text)
	return backlog.Description{
		Columns: slices.DeleteFunc(names, func(name string) bool { return slices.Contains(builtin, name) }),
		Checked: u.Scheme + "://" + u.Host + " takes connections",
	}
}

// Handle sends the mail for r and returns nil when the server has taken it.
func (h *Handler) Handle(ctx context.Context, r *backlog.Record) error {
	message, err := h.message(r)
	if err != nil {
		return fmt.Errorf("mail: %w", err)
	}
	c, err := h.client()
	if err != nil {
		return backlog.Unstarted(err)
	}
	for try := 1; ; try++ {
		err = send(ctx, c, message)
		if err == nil || try == maxTries || ctx.Err() != nil || isPermanent(err) {
			break
		}
		backlog.Sleep(ctx, retryPause)
	}
	backlog.LogExchange(ctx, h.Log, r, func() (sent, got string) {
		sent = strings.Join(message.GetToString(), ", ") + ": " + strings.Join(message.GetGenHeader(mail.HeaderSubject), " ")
		if err != nil {
			return sent, err.Error()
		}
		return sent, message.ServerResponse()
	})
	if err != nil {
		return fmt.Errorf("mail: %s: %w", c.ServerAddr(), err)
	}
	return nil
}

// isPermanent reports whether the server has said that it will never take the mail.
func isPermanent(err error) bool {
	refusal, ok := errors.AsType[*mail.SendError](err)
	return ok && refusal.ErrorCode() >= 500
}

// send tries once, and returns soon after ctx is done. go-mail heeds ctx only while it
// connects; what is still running then ends by serverTimeout.
func send(ctx context.Context, c *mail.Client, m *mail.Msg) error {
	done := make(chan error, 1)
	go func() {
		err := c.DialAndSendWithContext(ctx, m)
		if m.IsDelivered() {
			err = nil // an error after the delivery does not matter
		}
		done <- err
	}()
	select {
	case err := <-done:
		if err == nil || ctx.Err() == nil {
			return err
		}
	case <-ctx.Done():
	}
	return context.Cause(ctx)
}

// message returns the mail for r. An error is the record's fault.
func (h *Handler) message(r *backlog.Record) (*mail.Msg, error) {
	recipient, err := expand(h.To, r)
	if err != nil {
		return nil, err
	}
	subject, err := expand(h.Subject, r)
	if err != nil {
		return nil, err
	}
	text, err := expand(h.Text, r)
	if err != nil {
		return nil, err
	}
	to, err := address(recipient)
	switch {
	case err != nil:
		return nil, fmt.Errorf("to: %w", err)
	case strings.ContainsFunc(subject, isControl):
		return nil, errors.New("subject: a value in it has a line break or the like, and a subject is one line; no mail is sent")
	}
	m := mail.NewMsg(mail.WithNoDefaultUserAgent())
	if err := m.From(h.From); err != nil {
		return nil, fmt.Errorf("from: %w", err)
	}
	m.ToMailAddress(to)
	m.Subject(subject)
	m.SetBodyString(mail.TypeTextPlain, text)
	m.SetDate()
	_, domain, _ := strings.Cut(m.GetFrom()[0].Address, "@")
	m.SetMessageIDWithValue(r.AttemptID + "@" + domain) // the same for each try
	m.SetGenHeader("Auto-Submitted", "auto-generated")  // keeps vacation replies away
	return m, nil
}

// client returns an SMTP client for the server, or what is wrong with the settings.
func (h *Handler) client() (*mail.Client, error) {
	if err := mapping.FirstProblem(h.Settings.Check); err != nil {
		return nil, fmt.Errorf("mail: %w", err)
	}
	u, err := h.server()
	if err != nil {
		return nil, fmt.Errorf("mail: smtp: %w", err)
	}
	authorities, err := setting.Authorities(h.CAFile)
	if err != nil {
		return nil, fmt.Errorf("mail: %w", err)
	}
	secure := &tls.Config{ServerName: u.Hostname(), MinVersion: tls.VersionTLS12, RootCAs: authorities}
	port, _ := strconv.Atoi(u.Port())
	options := []mail.Option{
		mail.WithPort(port), mail.WithTimeout(serverTimeout), mail.WithTLSConfig(secure), mail.WithTLSPolicy(mail.TLSMandatory),
	}
	switch {
	case u.Scheme == "smtps":
		options = append(options, mail.WithSSL())
	case h.Insecure:
		options = append(options, mail.WithTLSPolicy(mail.NoTLS))
	}
	if u.User != nil {
		password, _ := u.User.Password()
		options = append(options, mail.WithSMTPAuth(mail.SMTPAuthAutoDiscover),
			mail.WithUsername(u.User.Username()), mail.WithPassword(password))
	}
	return mail.NewClient(u.Hostname(), options...)
}
