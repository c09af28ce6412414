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

// Settings are the configuration of the pages. Paths in it are relative to a folder that the caller
// names.
type Settings struct {
	// Listen is host:port or unix:/path; "": nothing listens. An address that other machines
	// reach needs TLS or BehindProxy.
	Listen string `yaml:"listen"`

	TokenFile     string `yaml:"token_file,env"`      // has the full token; "": web.token in the state folder
	ReadTokenFile string `yaml:"read_token_file,env"` // has the read token; "": none

	Actions     bool     `yaml:"actions"`
	Hosts       []string `yaml:"hosts,names" want:"a name or a list of names"` // host names besides localhost and the address
	TLS         TLS      `yaml:"tls"`
	BehindProxy bool     `yaml:"behind_proxy"` // a proxy in front ends TLS
	PathPrefix  string   `yaml:"path_prefix"`  // "/", or a path that begins with a slash and does not end with one
	Show        []string `yaml:"show,names" want:"a column or a list of columns"`
}

// TLS has the files of a certificate and its key; "": no TLS.
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

// Check calls fail for each thing that is wrong with the settings, with its key. It opens no file.
func (s *Settings) Check(fail func(field, problem string)) {
	host, port, err := net.SplitHostPort(s.Listen)
	_, portErr := net.LookupPort("tcp", cmp.Or(port, "none"))
	isUnix := strings.HasPrefix(s.Listen, "unix:") && s.Listen != "unix:"
	switch {
	case s.Listen == "" || isUnix:
	case err != nil || portErr != nil:
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

// secure reports whether browsers use TLS.
func (s *Settings) secure() bool { return s.TLS.Cert != "" || s.BehindProxy }

// A Right is what a visitor may do.
type Right int

const (
	None Right = iota
	Read       // see everything
	Full       // and act
)

// String returns which token has the right.
func (r Right) String() string {
	switch r {
	case Read:
		return "read token"
	case Full:
		return "full token"
	}
	return "no token"
}

// Tokens are the digests of the tokens that give a right.
type Tokens struct{ full, read digest }

// A digest is the hash of a token; zero: there is no token.
type digest [sha256.Size]byte

// right returns what the token with the digest allows. The time it takes does not depend on the
// digest.
func (t Tokens) right(d digest) Right {
	isFull := subtle.ConstantTimeCompare(d[:], t.full[:]) == 1
	isRead := subtle.ConstantTimeCompare(d[:], t.read[:]) == 1
	switch {
	case isFull && t.full != digest{}:
		return Full
	case isRead && t.read != digest{}:
		return Read
	}
	return None
}

// Bearer returns what the bearer token in the request's Authorization header allows.
func (t Tokens) Bearer(r *http.Request) Right {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return None
	}
	return t.right(sha256.Sum256([]byte(strings.TrimSpace(token))))
}

// TokenPath returns the file of the full token. It returns "" if neither TokenFile nor the state
// folder is given.
func (s *Settings) TokenPath(dir, state string) string {
	if s.TokenFile == "" && state != "" {
		return filepath.Join(state, "web.token")
	}
	return inDir(dir, s.TokenFile)
}

// inDir returns the path relative to a folder. An absolute path and "" stay as they are.
func inDir(dir, path string) string {
	if path == "" || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}

// ReadTokens reads the tokens from their files. If the file of the full token is missing, it makes one.
func (s *Settings) ReadTokens(dir, state string) (t Tokens, err error) {
	path := s.TokenPath(dir, state)
	if path == "" {
		return t, errors.New("web.token_file is missing: there is no state folder to keep the token in; name a file")
	}
	if err := makeToken(path); err != nil {
		return t, err
	}
	t.full, err = readToken(path)
	if err != nil || s.ReadTokenFile == "" {
		return t, err
	}
	t.read, err = readToken(inDir(dir, s.ReadTokenFile))
	if err == nil && t.read == t.full {
		err = fmt.Errorf("%s has the token that may act; write another one into it", s.ReadTokenFile)
	}
	return t, err
}

// maxTokenFile is how many bytes the file of a token may have.
const maxTokenFile = 4096

// CheckFiles returns the error that [New] or [Settings.ReadTokens] would return. It makes no token.
func (s *Settings) CheckFiles(dir, state string) error {
	path := s.TokenPath(dir, state)
	_, statErr := os.Stat(path)
	var err error
	missing := path != "" && errors.Is(statErr, fs.ErrNotExist)
	switch {
	case !missing:
		_, err = s.ReadTokens(dir, state)
	case s.ReadTokenFile != "":
		_, err = readToken(inDir(dir, s.ReadTokenFile))
	}
	if err == nil && s.TLS.Cert != "" {
		_, err = tls.LoadX509KeyPair(inDir(dir, s.TLS.Cert), inDir(dir, s.TLS.Key))
	}
	return err
}

// readToken returns the digest of the token in a file.
func readToken(path string) (d digest, err error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // without waiting for a FIFO's writer
	if err != nil {
		return d, err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() || info.Size() > maxTokenFile {
		return d, errors.Join(err, fmt.Errorf("%s is no file of at most %d bytes with a token", path, maxTokenFile))
	}
	b, err := io.ReadAll(f)
	if err != nil {
		return d, err
	}
	token := strings.TrimSpace(string(b))
	outsideASCII := func(c byte) bool { return c <= ' ' || c > '~' }
	if len(token) < 32 || slices.ContainsFunc([]byte(token), outsideASCII) {
		return d, fmt.Errorf("%s has no token: it must be at least 32 characters of ASCII without spaces; remove the file and one is made", path)
	}
	return sha256.Sum256([]byte(token)), nil
}

// makeToken writes a new token into the file unless the file exists. It links a complete file, so that two
// processes at once end up with the same complete token.
func makeToken(path string) error {
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
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
