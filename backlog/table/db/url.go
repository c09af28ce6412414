package db

import (
	"cmp"
	"net/url"
	"slices"
	"strings"
)

// Kinds returns the dialect for a URL.
func Kinds(rawURL string, known ...Server) (Server, error) {
	const hint = "write sqlite:PATH, postgres://USER:PASSWORD@HOST:5432/DATABASE or mysql://USER:PASSWORD@HOST:3306/DATABASE"
	scheme, rest, ok := strings.Cut(rawURL, ":")
	kind := strings.ToLower(scheme)
	i := slices.IndexFunc(known, func(s Server) bool { return slices.Contains(s.Text().Schemes, kind) })
	switch {
	case !ok:
		return nil, URLProblemf(hint, "the database is not a URL")
	case i >= 0:
		return known[i], nil
	case schemePattern().MatchString(kind) && (strings.HasPrefix(rest, "//") || !strings.Contains(rest, "@")):
		return nil, URLProblemf(hint, "unknown kind of database %q", kind)
	}
	return nil, URLProblemf(hint, "the database is not a URL of a known kind")
}

// Shown returns the URL without user, password and parameters. Where a part of the
// password may stand in the rest, only the scheme is left.
func Shown(rawURL string, known ...Server) string {
	server, err := Kinds(rawURL, known...)
	if err != nil {
		return "…"
	}
	scheme, _, _ := strings.Cut(rawURL, ":")
	u, _, err := server.Text().ParseURL(rawURL)
	switch {
	case err == nil && server.Text().File:
		return rawURL
	case err == nil && databasePattern().MatchString(u.EscapedPath()):
		return scheme + "://" + u.Host + u.EscapedPath()
	}
	return scheme + ":…"
}

var (
	// schemePattern is what a URL may begin with. Anything else in front of a colon
	// can be a part of a password and is not shown.
	schemePattern = Pattern(`^[a-z][a-z0-9+.-]*$`)

	// hostPattern matches names and numbers of hosts, with their ports.
	hostPattern = Pattern(`^([A-Za-z0-9._-]*|\[[0-9a-fA-F:.]*\])(:[0-9]+)?(,([A-Za-z0-9._-]*|\[[0-9a-fA-F:.]*\])(:[0-9]+)?)*$`)

	// databasePattern matches a path that is the plain name of one.
	databasePattern = Pattern(`^(/[A-Za-z0-9._-]*)?$`)

	// userPattern matches the beginning of a URL with a user. A password may have a
	// slash in it, but one letter and a colon are a drive.
	userPattern = Pattern(`(?s)^//([^/]*@|[^/:]{2,}:.*@)`)

	// queryPattern matches the first parameter of a file's URL. The file's name may
	// have a question mark in it.
	queryPattern = Pattern(`\?[^=?/]*=`)

	// parameterPattern matches names of parameters; anything else can be a part of a
	// password.
	parameterPattern = Pattern(`^[A-Za-z_.]{1,40}$`)
)

// ParseURL reads the URL of a database. It is strict, since what is misread may be a
// part of the password, and its errors show no more than names of parameters. The
// URL of a file has nothing but a path.
func (t *Text) ParseURL(rawURL string) (u *url.URL, params map[string]string, err error) {
	_, rest, _ := strings.Cut(rawURL, ":")
	var query string
	if t.File {
		if userPattern().MatchString(rest) {
			return nil, nil, URLProblemf("a file has no user and host; write "+t.Form, "the database URL has a user")
		}
		u = &url.URL{Path: strings.TrimPrefix(rest, "//")}
		if at := queryPattern().FindStringIndex(u.Path); at != nil {
			u.Path, query = u.Path[:at[0]], u.Path[at[0]+1:]
		}
	} else {
		u, err = url.Parse(rawURL)
		switch {
		case err != nil, !strings.HasPrefix(rest, "//"), u.Fragment != "", strings.Count(rawURL, "@") > 1, !hostPattern().MatchString(u.Host), u.Host == "" && t.NeedsHost:
			return nil, nil, URLProblemf("write "+t.Form, "the database URL cannot be read")
		case strings.Contains(strings.TrimPrefix(u.Path, "/"), "/"), strings.Contains(u.Path+u.RawQuery, "@"):
			return nil, nil, URLProblemf("write "+t.Form, "the database URL has more behind its host than the name of a database")
		}
		query = u.RawQuery
	}
	params, err = t.parameters(query)
	return u, params, err
}

// parameters reads a URL's parameters, one after the other.
func (t *Text) parameters(query string) (map[string]string, error) {
	params := make(map[string]string)
	for p := range strings.FieldsFuncSeq(query, func(r rune) bool { return r == '&' }) {
		name, value, _ := strings.Cut(p, "=")
		text, known := t.Parameters[name]
		legal := strings.Fields(text)
		value, err := url.QueryUnescape(value)
		switch {
		case !parameterPattern().MatchString(name), err != nil:
			return nil, URLProblemf(cmp.Or(t.NoOther, "write "+t.Form), "the database URL has a parameter that is not known")
		case !known && t.NoOther != "":
			return nil, URLProblemf(t.NoOther, "the database URL has a parameter %s", name)
		case len(legal) > 0 && !slices.Contains(legal, strings.ToLower(value)):
			return nil, URLProblemf("write "+strings.Join(legal, " or "), "the database URL asks for a %s that is neither %s", name, strings.Join(legal, " nor "))
		case len(legal) > 0:
			value = strings.ToLower(value)
		}
		params[name] = value
	}
	return params, nil
}
