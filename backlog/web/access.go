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
	maxRequests = 64       // answered at a time, and as many without a token
	maxBody     = 64 << 10 // bytes of a request
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
	// plotPolicy is for pictures, which have their colours in style attributes.
	plotPolicy = "default-src 'none'; style-src 'unsafe-inline'; sandbox"
)

// headers sets the headers that every answer has.
func (v *visit) headers() {
	h := v.w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
}

// checkHost refuses a request under an unknown host name, against DNS rebinding: another site could
// point its own name at this address, and its pages would then be of the same origin. Probes and
// visitors with a bearer token, which such a page does not have, need no known name.
func (v *visit) checkHost(bearer Right, probe bool) error {
	if bearer > None || probe {
		return nil
	}
	listen, _, _ := net.SplitHostPort(v.set.Listen)
	host := hostOf(v.r.Host)
	isHost := func(name string) bool { return name != "" && strings.EqualFold(hostOf(name), host) }
	names := append([]string{"localhost", "127.0.0.1", "::1", listen}, v.set.Hosts...)
	if slices.ContainsFunc(names, isHost) {
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

// checkOrigin refuses a request that a page of another site has made a browser send. It also compares
// the origin with the host itself, because Go's check accepts an origin with user info
// (golang/go#78563).
func (v *visit) checkOrigin() error {
	origin := v.r.Header.Get("Origin")
	_, host, isURL := strings.Cut(origin, "://")
	safe := slices.Contains([]string{http.MethodGet, http.MethodHead, http.MethodOptions}, v.r.Method)
	otherOrigin := origin != "" && (!isURL || host != v.r.Host)
	if !safe && otherOrigin || v.crossOrigin.Check(v.r) != nil {
		return &Problem{http.StatusForbidden, "Another site has sent this request; nothing was done."}
	}
	return nil
}

// checkRight sets the visitor's right, by bearer token or session, and refuses less than is needed.
func (v *visit) checkRight(bearer, need Right) error {
	v.right = bearer
	if bearer == None {
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

// cookie returns the name of the session's cookie. It differs from port to port, because browsers
// share cookies between all ports of a host.
func (v *visit) cookie() string {
	sum := sha256.Sum256([]byte(v.r.Host))
	name := "backlog-" + hex.EncodeToString(sum[:4])
	if v.set.secure() {
		name = "__Host-" + name
	}
	return name
}

// setCookie sends the browser the cookie of a session; "" removes it.
func (v *visit) setCookie(id string) {
	c := &http.Cookie{
		Name:     v.cookie(),
		Value:    id,
		Path:     cmp.Or(v.set.prefix, "/"),
		MaxAge:   int(sessionLife.Seconds()),
		Secure:   v.set.secure(),
		HttpOnly: true,
		SameSite: http.SameSiteStrictMode,
	}
	if c.Secure {
		c.Path = "/" // which the prefix __Host- requires
	}
	if id == "" {
		c.MaxAge = -1
	}
	http.SetCookie(v.w, c)
}

// fromSession returns the right of the visitor's session, and its id. It removes a session that has
// ended.
func (v *visit) fromSession() (Right, string) {
	c, err := v.r.Cookie(v.cookie())
	if err != nil {
		return None, ""
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	s, ok := v.sessions.Peek(c.Value)
	right := v.set.tokens.right(s.token)
	if ok && right > None && v.at.Before(s.ends) {
		return right, c.Value
	}
	v.sessions.Remove(c.Value)
	return None, ""
}

// newSession begins a session of a token and returns its id. If there are too many, the oldest ends.
func (s *Site) newSession(d digest, now time.Time) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	id := random()
	s.sessions.Add(id, session{d, now.Add(sessionLife)})
	return id
}

// loginForm shows the form, or the page next if the visitor is logged in.
func (v *visit) loginForm() error {
	next := localPath(v.Query("next"))
	if v.right > None {
		v.redirect(next)
		return nil
	}
	v.render(http.StatusOK, page{Name: "login", Data: login{Next: next}})
	return nil
}

// A login is what the form shows.
type login struct{ Next, Problem string }

// login takes the form and begins a session.
func (v *visit) login() (any, error) {
	if err := v.form(); err != nil {
		return nil, err
	}
	next := localPath(v.r.PostFormValue("next"))
	token := strings.TrimSpace(v.r.PostFormValue("token"))
	d := digest(sha256.Sum256([]byte(token)))
	right := v.set.tokens.right(d)
	if right == None {
		v.log.Warn("a login was refused: this is not the token", "address", v.r.RemoteAddr)
		v.code = http.StatusUnauthorized
		return login{next, "This is not the token."}, nil
	}
	v.setCookie(v.newSession(d, v.at))
	v.log.Info("logged in", "by", right.String(), "address", v.r.RemoteAddr)
	return actionResult{next: next}, nil
}

// logout ends the session.
func (v *visit) logout() (any, error) {
	v.mu.Lock()
	v.sessions.Remove(v.session)
	v.mu.Unlock()
	v.setCookie("")
	return actionResult{next: "/login"}, nil
}

// form parses the body of a form.
func (v *visit) form() error {
	if err := v.r.ParseForm(); err != nil {
		return errors.Join(err, &Problem{http.StatusBadRequest, "The form cannot be read."})
	}
	return nil
}

// localPath returns the path and query of a URL if it is a path of this site, else "/". So a link to
// the login cannot send the visitor to another site.
func localPath(next string) string {
	u, err := url.Parse(next)
	if err != nil || u.Scheme != "" || u.Host != "" {
		return "/"
	}
	// Browsers take //host and /\host for another host.
	if !strings.HasPrefix(u.Path, "/") || strings.HasPrefix(u.Path, "//") || strings.Contains(u.Path, `\`) {
		return "/"
	}
	return (&url.URL{Path: u.Path, RawQuery: u.RawQuery}).String()
}
