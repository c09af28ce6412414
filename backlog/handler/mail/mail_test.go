package mail_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"log/slog"
	"math/big"
	"mime"
	"net"
	netmail "net/mail"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"

	"backlog/backlog"
	"backlog/backlog/handler/mail"
	"backlog/internal/handlertest"
	"backlog/internal/testkit"
)

var _ backlog.Handler = (*mail.Handler)(nil)

// A sink is a mail server that keeps what it gets.
type sink struct {
	addr, ca string // of the certificate, in a file

	mu    sync.Mutex
	mails []letter
	tries int
	says  []error // to the tries, in turn; the last to all that follow
}

type letter struct {
	from, to, text string
	secure         bool
	user           string
}

func (s *sink) all() []letter {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.mails)
}

// session is one connection.
type session struct {
	*sink
	conn *smtp.Conn
	mail letter
}

func (s *session) AuthMechanisms() []string { return []string{sasl.Plain} }
func (s *session) Auth(string) (sasl.Server, error) {
	return sasl.NewPlainServer(func(_, user, password string) error {
		if s.mail.user = user + ":" + password; s.mail.user != "u:hunter2" {
			return smtp.ErrAuthFailed
		}
		return nil
	}), nil
}
func (s *session) Mail(from string, _ *smtp.MailOptions) error { s.mail.from = from; return nil }
func (s *session) Rcpt(to string, _ *smtp.RcptOptions) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mail.to, s.tries = s.mail.to+to, s.tries+1
	if n := len(s.says); n > 0 {
		return s.says[min(s.tries, n)-1]
	}
	return nil
}
func (s *session) Data(r io.Reader) error {
	text, err := io.ReadAll(r)
	_, s.mail.secure = s.conn.TLSConnectionState()
	s.mail.text = string(text)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mails = append(s.mails, s.mail)
	return err
}
func (s *session) Reset()        {}
func (s *session) Logout() error { return nil }

// newSink starts a server with a certificate of its own, unless it is to have none.
func newSink(t *testing.T, plain, tlsAtOnce bool) *sink {
	t.Helper()
	s := new(sink)
	server := smtp.NewServer(smtp.BackendFunc(func(c *smtp.Conn) (smtp.Session, error) { return &session{sink: s, conn: c}, nil }))
	server.Domain, server.AllowInsecureAuth = "127.0.0.1", plain
	server.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, 0)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.addr = l.Addr().String()
	if !plain {
		server.TLSConfig, s.ca = certificate(t)
	}
	if tlsAtOnce {
		l = tls.NewListener(l, server.TLSConfig)
	}
	go server.Serve(l)
	t.Cleanup(func() { server.Close() })
	return s
}

// certificate returns one for this machine, and the file that it is in.
func certificate(t *testing.T) (*tls.Config, string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}, handlertest.File(t, t.TempDir(), "ca.pem", string(text), 0o600)
}

// handler returns one for the sink.
func (s *sink) handler(url string) *mail.Handler {
	return &mail.Handler{Settings: mail.Settings{
		SMTP: strings.ReplaceAll(url, "HOST", s.addr), From: "Tables <tables@example.com>", To: "{customer_email}", CAFile: s.ca,
		Subject: "Table {id}: {reason}", Text: "Dear {name},\n.\n{{{id}}} was given up: {error}\n",
	}}
}

// dead is a record of a customer with the address.
func dead(address any) *backlog.Record {
	return &backlog.Record{
		Key: backlog.NewKey(int64(7)), AttemptID: "a1", Names: []string{"customer_email", "name", "n"}, Values: []any{address, "Zoë", nil},
		Reason: backlog.ReasonRetries, Error: "no such\r\nhost",
	}
}

func TestMail(t *testing.T) {
	for name, test := range map[string]struct {
		plain, atOnce bool
		url           string
	}{
		"STARTTLS": {false, false, "smtp://u:hunter2@HOST"}, "TLS": {false, true, "smtps://u:hunter2@HOST"}, "on this machine": {true, false, "smtp://HOST"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSink(t, test.plain, test.atOnce)
			h := s.handler(test.url)
			h.Insecure = test.plain
			var exchange func() (sent, got string)
			h.Log, exchange = handlertest.Log(slog.LevelDebug)
			if err := h.Check(t.Context()); err != nil {
				t.Fatal(err)
			}
			r := dead("Zoë <zoe@example.org>")
			if err := h.Handle(t.Context(), r); err != nil {
				t.Fatal(err)
			}
			r.Memory = &backlog.Memory{Reason: "Provided URL is invalid"}
			if err := h.Handle(t.Context(), r); err != nil {
				t.Fatal(err)
			}
			mails := s.all()
			if len(mails) != 2 {
				t.Fatalf("%d mails", len(mails))
			}
			m := mails[0]
			testkit.Equal(t, "from", m.from, "tables@example.com")
			testkit.Equal(t, "to", m.to, "zoe@example.org")
			testkit.Equal(t, "it came over TLS", m.secure, !test.plain)
			testkit.Equal(t, "it was sent with a login", m.user != "", !test.plain)
			for i, want := range []string{"Table 7: out of retries", "Table 7: Provided URL is invalid"} {
				parsed, err := netmail.ReadMessage(strings.NewReader(mails[i].text))
				if err != nil {
					t.Fatal(err)
				}
				subject, err := new(mime.WordDecoder).DecodeHeader(parsed.Header.Get("Subject"))
				if err != nil {
					t.Errorf("subject: %v", err)
				}
				testkit.Equal(t, "subject", subject, want)
				testkit.Equal(t, "Message-ID", parsed.Header.Get("Message-ID"), "<a1@example.com>")
				testkit.Equal(t, "Auto-Submitted", parsed.Header.Get("Auto-Submitted"), "auto-generated")
			}
			if _, body, _ := strings.Cut(m.text, "\r\n\r\n"); body != "Dear Zo=C3=AB,\r\n.\r\n{7} was given up: no such\r\nhost\r\n" {
				t.Errorf("body %q", body)
			}
			if sent, got := exchange(); !strings.Contains(sent, "zoe@example.org") || got == "" || strings.Contains(sent+got, "hunter2") {
				t.Errorf("logged %q, %q", sent, got)
			}
		})
	}
}

// TestMailAddresses shows which addresses of rows get no mail.
func TestMailAddresses(t *testing.T) {
	s := newSink(t, false, false)
	h := s.handler("smtp://u:hunter2@HOST")
	for address, want := range map[any]string{
		"zoe@example.org\r\nBcc: all@example.org": "mail: to: has a line break or the like", "zoe@example.org\n": "mail: to: has a line break",
		"\"a\r\nRCPT TO:<b@example.org>\"@example.org": "has a line break", "zoe@example.org\x00": "has a line break",
		"a@example.org, b@example.org": "mail: to: is not one address; write it as name@example.com", "": "is not one address", nil: "is not one address",
		"zoe": "is not one address", int64(7): "is not one address",
	} {
		if err := h.Handle(t.Context(), dead(address)); err == nil || !strings.Contains(err.Error(), want) || backlog.OutcomeOf(err) != backlog.Errored {
			t.Errorf("%q: %v, want %s", address, err, want)
		}
	}
	h.Subject = "About {error}"
	if err := h.Handle(t.Context(), dead("zoe@example.org")); err == nil || !strings.Contains(err.Error(), "mail: subject: a value in it has a line break") {
		t.Error(err)
	}
	h.Subject = "About {nothing}"
	if err := h.Handle(t.Context(), dead("zoe@example.org")); err == nil || !strings.Contains(err.Error(), "mail: the record has no column nothing") {
		t.Error(err)
	}
	if got := s.all(); len(got) > 0 || s.tries > 0 {
		t.Errorf("sent: %+v", got)
	}
}

func TestMailTries(t *testing.T) {
	later, never := &smtp.SMTPError{Code: 451, Message: "later"}, &smtp.SMTPError{Code: 550, Message: "no such user #7"}
	for name, test := range map[string]struct {
		says  []error
		tries int
		want  string
	}{
		"later": {[]error{later, later, nil}, 3, ""}, "too late": {[]error{later}, 3, "later"}, "never": {[]error{never, nil}, 1, "no such user #7"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSink(t, false, false)
			s.says = test.says
			err := s.handler("smtp://u:hunter2@HOST").Handle(t.Context(), dead("zoe@example.org"))
			if err == nil != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want %q", err, test.want)
			}
			if s.tries != test.tries || len(s.all()) > 0 != (test.want == "") {
				t.Errorf("%d tries, %d mails", s.tries, len(s.all()))
			}
		})
	}
}

// TestMailDistrusts shows that nothing is told to a server that might be another.
func TestMailDistrusts(t *testing.T) {
	_, other := certificate(t)
	for name, test := range map[string]struct {
		plain  bool
		change func(h *mail.Handler)
		want   string
	}{
		"no STARTTLS":     {true, func(*mail.Handler) {}, "STARTTLS"},
		"another's":       {false, func(h *mail.Handler) { h.CAFile = other }, "x509: "},
		"wrong password":  {false, func(h *mail.Handler) { h.SMTP = strings.Replace(h.SMTP, "hunter2", "hunter3", 1) }, "535"},
		"no certificate":  {false, func(h *mail.Handler) { h.CAFile = handlertest.File(t, t.TempDir(), "x", "x", 0o600) }, "holds no certificate in PEM form"},
		"no file":         {false, func(h *mail.Handler) { h.CAFile = "nowhere" }, "mail: ca_file: open nowhere: no such file or directory; correct the path"},
		"nobody is there": {false, func(h *mail.Handler) { h.SMTP = "smtp://u:hunter2@127.0.0.1:1" }, "127.0.0.1:1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSink(t, test.plain, false)
			h := s.handler("smtp://u:hunter2@HOST")
			test.change(h)
			for _, err := range []error{h.Check(t.Context()), h.Handle(t.Context(), dead("zoe@example.org"))} {
				if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "hunter") {
					t.Errorf("error %v, want %s", err, test.want)
				}
			}
			if got := s.all(); len(got) > 0 {
				t.Errorf("sent: %+v", got)
			}
		})
	}
}

// TestMailSilent is a server that takes connections and says nothing.
func TestMailSilent(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	late := errors.New("timed out after 1s")
	ctx, cancel := context.WithTimeoutCause(t.Context(), 10*time.Millisecond, late)
	defer cancel()
	began := time.Now()
	err = (&sink{addr: l.Addr().String()}).handler("smtp://HOST").Handle(ctx, dead("zoe@example.org"))
	if !errors.Is(err, late) || time.Since(began) > 3*time.Second {
		t.Errorf("%v after %v", err, time.Since(began))
	}
}

func TestMailSettings(t *testing.T) {
	const server = "is no mail server; write smtp://user:${PASSWORD}@mail.example.com:587, or smtps:// for TLS from the first byte; in a password @ is %40, / is %2F and so on"
	for want, change := range map[string]func(s *mail.Settings){
		"":                       func(s *mail.Settings) { s.To, s.Subject, s.Text = "Ops <ops@example.com>", "{{}}", "{id}\n" },
		"smtp: " + server:        func(s *mail.Settings) { s.SMTP = "https://u:hunter2@h" },
		"smtp: " + server + " ":  func(s *mail.Settings) { s.SMTP = "smtp://u:hunter2@:587" },
		"smtp: " + server + "  ": func(s *mail.Settings) { s.SMTP = "smtp://u:hunter2%@h" },
		"smtp: has a port beyond 65535; correct it": func(s *mail.Settings) { s.SMTP = "smtp://u:hunter2@h:65536" },
		"insecure: is only for a server on this machine, such as smtp://localhost:25: anybody on the way could read mails and the password; remove it": func(s *mail.Settings) { s.Insecure = true },
		"from: is no address; write one such as backlog@example.com, or Backlog <backlog@example.com>":                                                 func(s *mail.Settings) { s.From = "{customer_email}" },
		"to: is not one address; write it as name@example.com":                                                                                         func(s *mail.Settings) { s.To = "a@example.com, b@example.com" },
		"subject: has a line break; a subject is one line":                                                                                             func(s *mail.Settings) { s.Subject = "a\nb" },
		"text: has a { or } without the other; write {column} for a column's value, and {{ or }} if the character itself is meant":                     func(s *mail.Settings) { s.Text = "{id" },
	} {
		s := (&sink{addr: "mail.example.com"}).handler("smtp://u:hunter2@HOST").Settings
		change(&s)
		var got []string
		s.Check(func(field, problem string) { got = append(got, field+": "+problem) })
		if text := strings.Join(got, "\n"); text != strings.TrimSpace(want) {
			t.Errorf("%q, want %q", text, want)
		}
	}
	for _, host := range []string{"localhost", "127.0.0.1:25", "[::1]:25"} {
		h := (&sink{addr: host}).handler("smtp://HOST")
		h.Insecure = true
		if err := h.Prepare(); err != nil {
			t.Errorf("%s: %v", host, err)
		}
	}
	h := (&sink{addr: "mail.example.com"}).handler("smtp://HOST")
	if names, err := h.Describe().Columns, h.Prepare(); err != nil || !slices.Equal(names, []string{"customer_email", "name"}) {
		t.Errorf("%q, %v", names, err)
	}
	if got := h.Describe().Checked; got != "smtp://mail.example.com:587 takes connections" {
		t.Error(got)
	}
}

// FuzzMail shows that no text of a row adds a line to the header or an address to
// the envelope.
func FuzzMail(f *testing.F) {
	h := (&sink{addr: "mail.example.com"}).handler("smtp://HOST")
	h.Subject = "About {name}"
	f.Add("zoe@example.org", "x\r\nBcc: b@example.org")
	f.Add("\"a\\\"\r\n\"@example.org", "=?utf-8?q?a?=")
	f.Fuzz(func(t *testing.T, address, name string) {
		r := dead(address)
		r.Values[1] = name
		m, err := h.Message(r)
		if err != nil {
			return
		}
		var b bytes.Buffer
		if _, err := m.WriteTo(&b); err != nil {
			return
		}
		parsed, err := netmail.ReadMessage(&b)
		if err != nil {
			t.Fatalf("%q, %q: %v", address, name, err)
		}
		if to, err := parsed.Header.AddressList("To"); err != nil || len(to) != 1 || len(parsed.Header) != 9 {
			t.Errorf("%q, %q: to %v, %v; %v", address, name, to, err, parsed.Header)
		}
	})
}
