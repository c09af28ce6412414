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

// Handler sends a mail for each record that it is told of ([backlog.Engine.OnDead]).
// Where the server does not take it at once it is tried twice more, unless the
// server says that it never will. It may be sent twice where the answer to it is lost.
//
// Methods may be called concurrently. A Handler must not be changed after the first
// call.
type Handler struct {
	Settings

	Log *slog.Logger // gets to whom what was sent, at DEBUG; nil: none
}

var _ backlog.ConfiguredHandler = (*Handler)(nil)

const (
	tries     = 3
	tryAgain  = time.Second      // after a failed try
	speakTime = 15 * time.Second // for a server to answer
)

// Prepare reports what is wrong with the settings and the file that they name, with a
// hint. Unlike Check it touches no network.
func (h *Handler) Prepare() error {
	_, err := h.client()
	return err
}

// Check reports what would keep mails from being sent: it connects and logs in.
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

// Describe implements [backlog.ConfiguredHandler]. It asks for the columns that mails need.
func (h *Handler) Describe() backlog.Description {
	u, _ := h.server() // Prepare reports an error, of the texts too
	names, _ := setting.Columns(strings.Join(h.texts(), " "))
	return backlog.Description{
		Columns: slices.DeleteFunc(names, func(name string) bool { return slices.Contains(own, name) }),
		Checked: u.Scheme + "://" + u.Host + " takes connections",
	}
}

// Handle sends the mail for r.
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
		var said *mail.SendError
		if err == nil || try == tries || ctx.Err() != nil || errors.As(err, &said) && said.ErrorCode() >= 500 {
			break
		}
		backlog.Sleep(ctx, tryAgain)
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

// send tries once. go-mail looks at its own deadlines only once it has connected: what
// is under way when ctx is done is left to them.
func send(ctx context.Context, c *mail.Client, m *mail.Msg) error {
	end := make(chan error, 1)
	go func() {
		err := c.DialAndSendWithContext(ctx, m)
		if m.IsDelivered() {
			err = nil // what came behind does not matter
		}
		end <- err
	}()
	select {
	case err := <-end:
		if err == nil || ctx.Err() == nil {
			return err
		}
	case <-ctx.Done():
	}
	return context.Cause(ctx)
}

// message returns the mail for r. What is wrong is wrong with the record.
func (h *Handler) message(r *backlog.Record) (m *mail.Msg, err error) {
	var texts [3]string
	for i, text := range h.texts() {
		if texts[i], err = expand(text, r); err != nil {
			return nil, err
		}
	}
	to, err := address(texts[0])
	switch {
	case err != nil:
		return nil, fmt.Errorf("to: %w", err)
	case strings.ContainsFunc(texts[1], isControl):
		return nil, errors.New("subject: a value in it has a line break or the like, and a subject is one line; no mail is sent")
	}
	m = mail.NewMsg(mail.WithNoDefaultUserAgent())
	if err := m.From(h.From); err != nil {
		return nil, fmt.Errorf("from: %w", err)
	}
	m.ToMailAddress(to)
	m.Subject(texts[1])
	m.SetBodyString(mail.TypeTextPlain, texts[2])
	m.SetDate()
	_, domain, _ := strings.Cut(m.GetFrom()[0].Address, "@")
	m.SetMessageIDWithValue(r.AttemptID + "@" + domain) // the same if it is sent twice
	m.SetGenHeader("Auto-Submitted", "auto-generated")  // nobody's vacation answers it
	return m, nil
}

// client returns what speaks to the server, or what is wrong with the settings.
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
		mail.WithPort(port), mail.WithTimeout(speakTime), mail.WithTLSConfig(secure), mail.WithTLSPolicy(mail.TLSMandatory),
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
