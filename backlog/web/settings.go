package web

import (
	"cmp"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"backlog/backlog/pattern"
)

// Settings are what the configuration says of the pages. Its paths are relative to a
// folder that the caller names.
type Settings struct {
	// Listen is host:port or unix:/path; empty: nothing listens. Off loopback TLS or
	// BehindProxy must be given.
	Listen string `yaml:"listen"`

	TokenFile     string `yaml:"token_file,env"`      // of the token that may act; empty: web.token in the state folder
	ReadTokenFile string `yaml:"read_token_file,env"` // of the one that sees and may not act; empty: none

	Actions     bool     `yaml:"actions"`
	Hosts       []string `yaml:"hosts,names" want:"a name or a list of names"` // by which it is reached beside localhost and the address
	TLS         TLS      `yaml:"tls"`
	BehindProxy bool     `yaml:"behind_proxy"` // TLS ends before us
	PathPrefix  string   `yaml:"path_prefix"`  // begins and does not end with a slash, but for "/"
	Show        []string `yaml:"show,names" want:"a column or a list of columns"`
}

// TLS are the files of a certificate and its key; empty: none.
type TLS struct {
	Cert string `yaml:"cert,env"`
	Key  string `yaml:"key,env"`
}

// NewSettings returns the defaults.
func NewSettings() *Settings { return &Settings{PathPrefix: "/"} }

var (
	prefixes  = pattern.Lazily(`^(/[A-Za-z0-9_~-][A-Za-z0-9._~-]*)+$`)
	hostNames = pattern.Lazily(`^([A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*|\[?[0-9A-Fa-f:.]+\]?)$`)
)

// Check reports what is wrong with the settings themselves. It opens no file.
func (s *Settings) Check(fail func(field, problem string)) {
	host, port, err := net.SplitHostPort(s.Listen)
	_, unknown := net.LookupPort("tcp", cmp.Or(port, "none"))
	switch {
	case s.Listen == "" || strings.HasPrefix(s.Listen, "unix:") && s.Listen != "unix:":
	case err != nil || unknown != nil:
		fail("listen", "must be an address such as 127.0.0.1:8080 or unix:/run/backlog/web.sock")
	case !loopback(host) && s.TLS.Cert == "" && !s.BehindProxy:
		fail("listen", "is reached from other machines, and the token would cross the network in the clear; "+
			"add tls: {cert: …, key: …}, or behind_proxy: true if a proxy ends TLS, or listen on 127.0.0.1")
	}
	if (s.TLS.Cert == "") != (s.TLS.Key == "") {
		fail("tls", "needs both, cert and key; add the other")
	}
	for i, h := range s.Hosts {
		if !hostNames().MatchString(h) {
			fail(fmt.Sprintf("hosts[%d]", i), "must be a name or an address without port, such as backlog.example.com")
		}
	}
	if s.PathPrefix != "/" && !prefixes().MatchString(s.PathPrefix) {
		fail("path_prefix", "must be / or a path such as /backlog, without a slash at its end")
	}
}

func loopback(host string) bool { return host == "localhost" || net.ParseIP(host).IsLoopback() }

// secure reports whether browsers reach the site by TLS.
func (s *Settings) secure() bool { return s.TLS.Cert != "" || s.BehindProxy }

// A Right is what somebody may do.
type Right int

// Read sees everything, Full may also act.
const (
	None Right = iota
	Read
	Full
)

func (r Right) String() string { return [...]string{"no token", "read token", "full token"}[r] }

// Tokens are what visitors show, or programs that fetch metrics. Nobody can read them out.
type Tokens struct{ full, read digest }

// A digest is what is kept of a token; the zero digest is nobody's.
type digest [sha256.Size]byte

func (t Tokens) right(d digest) Right {
	full, read := subtle.ConstantTimeCompare(d[:], t.full[:]), subtle.ConstantTimeCompare(d[:], t.read[:])
	switch {
	case full == 1 && t.full != digest{}:
		return Full
	case read == 1 && t.read != digest{}:
		return Read
	}
	return None
}

// Bearer returns what the token in the request's Authorization allows.
func (t Tokens) Bearer(r *http.Request) Right {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return None
	}
	return t.right(sha256.Sum256([]byte(strings.TrimSpace(token))))
}

// TokenPath returns where the token that may act is kept; empty where neither the settings
// nor the state folder, which may be empty, say so.
func (s *Settings) TokenPath(dir, state string) string {
	if s.TokenFile == "" && state != "" {
		return filepath.Join(state, "web.token")
	}
	return below(dir, s.TokenFile)
}

// below returns the path, which is relative to the folder; of an empty one an empty one.
func below(dir, path string) string {
	if path == "" || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}

// ReadTokens reads the tokens. It makes the one that may act if it is missing.
func (s *Settings) ReadTokens(dir, state string) (t Tokens, err error) {
	path := s.TokenPath(dir, state)
	if path == "" {
		return t, errors.New("web.token_file is missing: there is no state folder to keep the token in; name a file")
	}
	if err := makeToken(path); err != nil {
		return t, err
	}
	if t.full, err = readToken(path); err != nil || s.ReadTokenFile == "" {
		return t, err
	}
	if t.read, err = readToken(below(dir, s.ReadTokenFile)); err == nil && t.read == t.full {
		err = fmt.Errorf("%s has the token that may act; write another one into it", s.ReadTokenFile)
	}
	return t, err
}

// maxToken is how large its file may be.
const maxToken = 4096

// CheckFiles returns why [New] or [Settings.ReadTokens] would fail. It makes no token.
func (s *Settings) CheckFiles(dir, state string) error {
	_, err := os.Stat(s.TokenPath(dir, state))
	if s.TokenPath(dir, state) == "" || !errors.Is(err, fs.ErrNotExist) {
		_, err = s.ReadTokens(dir, state)
	} else if err = nil; s.ReadTokenFile != "" {
		_, err = readToken(below(dir, s.ReadTokenFile))
	}
	if err == nil && s.TLS.Cert != "" {
		_, err = tls.LoadX509KeyPair(below(dir, s.TLS.Cert), below(dir, s.TLS.Key))
	}
	return err
}

func readToken(path string) (d digest, err error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a FIFO is not waited for
	if err != nil {
		return d, err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() || info.Size() > maxToken {
		return d, errors.Join(err, fmt.Errorf("%s is no file of at most %d bytes with a token", path, maxToken))
	}
	b, err := io.ReadAll(f)
	if err != nil {
		return d, err
	}
	token := strings.TrimSpace(string(b))
	if len(token) < 32 || slices.ContainsFunc([]byte(token), func(c byte) bool { return c <= ' ' || c > '~' }) {
		return d, fmt.Errorf("%s has no token: it must be at least 32 characters of ASCII without spaces; remove the file and one is made", path)
	}
	return sha256.Sum256([]byte(token)), nil
}

// makeToken makes the file unless it is there. Of two processes that do so at once one
// wins, and nobody sees half a token.
func makeToken(path string) error {
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".token-*") // with mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.WriteString(random() + random() + "\n")
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err = os.Link(f.Name(), path); errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}
