package db

import (
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// Kinds returns the dialect for a URL.
func Kinds(rawURL string, known ...Server) (Server, error) {
	scheme, _, ok := strings.Cut(rawURL, ":")
	i := slices.IndexFunc(known, func(s Server) bool { return slices.Contains(s.Text().Schemes, strings.ToLower(scheme)) })
	if !ok || i < 0 {
		return nil, URLProblemf("write sqlite:PATH, postgres://USER:PASSWORD@HOST:5432/DATABASE or mysql://USER:PASSWORD@HOST:3306/DATABASE",
			"the database is not a URL of a known kind")
	}
	return known[i], nil
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
	case err != nil:
		return scheme + ":…"
	case server.Text().File:
		return rawURL
	}
	return scheme + "://" + u.Host + u.EscapedPath()
}

// userPattern matches the beginning of a URL with a user. A password may have a slash in
// it, but one letter and a colon are a drive.
var userPattern = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?s)^//([^/]*@|[^/:]{2,}:.*@)`) })

// ParseURL reads the URL of a database. It is strict, since what is misread may be a
// part of the password, and its errors show no more than names of known parameters.
// The URL of a file has nothing but a path.
func (t *Text) ParseURL(rawURL string) (u *url.URL, params map[string]string, err error) {
	_, rest, _ := strings.Cut(rawURL, ":")
	if t.File {
		if userPattern().MatchString(rest) { // the file's name would be shown
			return nil, nil, URLProblemf("a file has no user and host; write "+t.Form, "the database URL has a user")
		}
		u = new(url.URL)
		u.Path, u.RawQuery, _ = strings.Cut(strings.TrimPrefix(rest, "//"), "?")
	} else {
		u, err = url.Parse(rawURL)
		switch {
		case err != nil, !strings.HasPrefix(rest, "//"), u.Fragment != "", u.Host == "" && t.NeedsHost,
			strings.Count(rawURL, "@") > 1, strings.Contains(u.Path+u.RawQuery, "@"), strings.Count(u.Path, "/") > 1:
			return nil, nil, URLProblemf("write "+t.Form, "the database URL cannot be read")
		}
	}
	values, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return nil, nil, URLProblemf("write "+t.Form, "the database URL cannot be read")
	}
	params = make(map[string]string)
	for _, name := range slices.Sorted(maps.Keys(values)) {
		value := values.Get(name)
		legal, known := t.Parameters[name]
		if legal != "" {
			value = strings.ToLower(value)
		}
		params[name] = value
		switch {
		case !known && t.NoOther != "":
			return nil, nil, URLProblemf(t.NoOther, "the database URL has a parameter that is not known")
		case legal != "" && !slices.Contains(strings.Fields(legal), value):
			return nil, nil, URLProblemf("write one of "+legal, "the database URL has a %s that is not known", name)
		}
	}
	return u, params, nil
}
