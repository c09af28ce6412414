package web

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

const (
	maxRequests = 64
	maxBody     = 64 << 10
	maxSessions = 100
	sessionLife = 12 * time.Hour
)

// A session is a browser that has shown its token. It ends with that token.
type session struct {
	token digest
	ends  time.Time
}

const (
	policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
		"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
	// plotPolicy is for pictures, whose colours are attributes of style.
	plotPolicy = "default-src 'none'; style-src 'unsafe-inline'; sandbox"
)

// headers are on every answer.
func (v *visit) headers() {
	for name, value := range map[string]string{
		"Content-Security-Policy": policy, "X-Content-Type-Options": "nosniff", "Referrer-Policy": "same-origin", "Cache-Control": "no-store",
		"Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Resource-Policy": "same-origin",
	} {
		v.w.Header().Set(name, value)
	}
}

// checkHost refuses a request under another's name: a page elsewhere whose name was made to
// lead here is of the same origin to its browser. Probes are not asked, nor who has the
// token, which no such page has.
func (v *visit) checkHost(bearer Right, probe bool) error {
	listen, _, _ := net.SplitHostPort(v.set.Listen)
	host := hostOf(v.r.Host)
	known := func(name string) bool { return name != "" && strings.EqualFold(hostOf(name), host) }
	if bearer > None || probe || slices.ContainsFunc(append([]string{"localhost", "127.0.0.1", "::1", listen}, v.set.Hosts...), known) {
		return nil
	}
	return &Problem{http.StatusMisdirectedRequest, "This site does not go by the name in the address; web.hosts in the configuration lists more names."}
}

// hostOf returns the host without port and brackets.
func hostOf(s string) string {
	if host, _, err := net.SplitHostPort(s); err == nil {
		return host
	}
	return strings.TrimSuffix(strings.TrimPrefix(s, "["), "]")
}

// checkOrigin refuses what another site has a browser send. Go's own check believes an
// origin with user info (golang/go#78563): ours is exactly the host.
func (v *visit) checkOrigin() error {
	origin := v.r.Header.Get("Origin")
	_, host, whole := strings.Cut(origin, "://")
	safe := slices.Contains([]string{http.MethodGet, http.MethodHead, http.MethodOptions}, v.r.Method)
	if !safe && origin != "" && (!whole || host != v.r.Host) || v.foreign.Check(v.r) != nil {
		return &Problem{http.StatusForbidden, "Another site has sent this request; nothing was done."}
	}
	return nil
}

// checkRight finds out what the visitor may.
func (v *visit) checkRight(bearer, need Right) error {
	if v.right = bearer; bearer == None {
		v.right, v.session = v.fromSession()
	}
	if v.right > None {
		v.Now = v.backlog.Now()
	}
	switch {
	case v.right >= need:
		return nil
	case v.right > None:
		return &Problem{http.StatusForbidden, "The read token may not do this."}
	}
	v.w.Header().Set("WWW-Authenticate", "Bearer")
	return &Problem{http.StatusUnauthorized, "Show the token: Authorization: Bearer …, or log in at " + v.set.prefix + "/login."}
}

// cookie is the name under which a browser keeps its session. Cookies of one host are
// shared by all its ports: the name tells instances apart.
func (v *visit) cookie() string {
	sum := sha256.Sum256([]byte(v.r.Host))
	name := "backlog-" + hex.EncodeToString(sum[:4])
	if v.set.secure() {
		name = "__Host-" + name
	}
	return name
}

// setCookie gives the browser a session, or with an empty one takes it away.
func (v *visit) setCookie(id string) {
	c := &http.Cookie{
		Name: v.cookie(), Value: id, Path: cmp.Or(v.set.prefix, "/"), MaxAge: int(sessionLife.Seconds()),
		Secure: v.set.secure(), HttpOnly: true, SameSite: http.SameSiteStrictMode,
	}
	if c.Secure {
		c.Path = "/"
	}
	if id == "" {
		c.MaxAge = -1
	}
	http.SetCookie(v.w, c)
}

func (v *visit) fromSession() (Right, string) {
	c, err := v.r.Cookie(v.cookie())
	if err != nil {
		return None, ""
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	s, ok := v.sessions.Peek(c.Value)
	if right := v.set.tokens.right(s.token); ok && right > None && v.at.Before(s.ends) {
		return right, c.Value
	}
	v.sessions.Remove(c.Value)
	return None, ""
}

// begin makes a session. Of too many the oldest ends, which is the first to end anyway.
func (s *Site) begin(d digest, now time.Time) (id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	id = random()
	s.sessions.Add(id, session{d, now.Add(sessionLife)})
	return id
}

func (v *visit) loginForm() error {
	next := local(v.Query("next"))
	if v.right > None {
		v.redirect(next)
		return nil
	}
	v.render(http.StatusOK, page{Name: "login", Data: login{Next: next}})
	return nil
}

// A login is what its form shows.
type login struct{ Next, Problem string }

func (v *visit) login() (any, error) {
	if err := v.form(); err != nil {
		return nil, err
	}
	next := local(v.r.PostFormValue("next"))
	d := digest(sha256.Sum256([]byte(strings.TrimSpace(v.r.PostFormValue("token")))))
	right := v.set.tokens.right(d)
	if right == None {
		v.log.Warn("a login was refused: this is not the token", "address", v.r.RemoteAddr)
		v.code = http.StatusUnauthorized
		return login{next, "This is not the token."}, nil
	}
	v.setCookie(v.begin(d, v.at))
	v.log.Info("somebody logged in", "by", right.String(), "address", v.r.RemoteAddr)
	return done{path: next}, nil
}

func (v *visit) logout() (any, error) {
	v.mu.Lock()
	v.sessions.Remove(v.session)
	v.mu.Unlock()
	v.setCookie("")
	return done{path: "/login"}, nil
}

// form reads the body of a form.
func (v *visit) form() error {
	if err := v.r.ParseForm(); err != nil {
		return errors.Join(err, &Problem{http.StatusBadRequest, "The form cannot be read."})
	}
	return nil
}

// local returns a path with its query, below the prefix, if it is one of this site.
func local(next string) string {
	u, err := url.Parse(next)
	if err != nil || cmp.Or(u.Scheme, u.Host) != "" || !strings.HasPrefix(u.Path, "/") || strings.HasPrefix(u.Path, "//") || strings.Contains(u.Path, `\`) {
		return "/"
	}
	return (&url.URL{Path: u.Path, RawQuery: u.RawQuery}).String()
}
