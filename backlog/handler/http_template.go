package handler

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// A urlPlace is a part of a URL, which decides how a value is escaped in it.
type urlPlace int

const (
	inWhole urlPlace = iota // the value is the URL
	inHost                  // the authority: host and port
	inPath
	inQuery
)

// A urlPart is a stretch of literal text or, if column is set, the place of
// one value.
type urlPart struct {
	text   string
	column string
	place  urlPlace
}

// A urlTemplate is a URL in which {column} stands for a record's value, and {{
// and }} for braces. It is immutable.
type urlTemplate struct {
	parts []urlPart

	// base is the URL if it has no columns; otherwise only its scheme, user
	// and host are meant. It is nil if the record decides about the host.
	base *url.URL

	columns []string // each once
}

// parseTemplate parses a template. Its errors show nothing of the URL but the
// names of columns: there may be a password in it.
func parseTemplate(text string) (*urlTemplate, error) {
	parts, err := splitTemplate(text)
	if err != nil {
		return nil, err
	}
	if len(parts) == 1 && parts[0].column != "" {
		return &urlTemplate{parts: parts, columns: []string{parts[0].column}}, nil // inWhole
	}
	t := new(urlTemplate)
	if t.parts, err = placeParts(parts); err != nil {
		return nil, err
	}
	trial, hostGiven := "", true
	for _, p := range t.parts {
		if p.column != "" {
			p.text = "1" // good as a name, a port and anything else
			hostGiven = hostGiven && p.place != inHost
			if !slices.Contains(t.columns, p.column) {
				t.columns = append(t.columns, p.column)
			}
		}
		trial += p.text
	}
	u, err := parseURL(trial)
	if err != nil {
		return nil, fmt.Errorf("url %w", err)
	}
	if hostGiven {
		t.base = u
	} else if u.User != nil {
		return nil, errors.New("url has a user and a host from the record, which anybody's server could be; give credentials in headers, if every host may see them")
	}
	return t, nil
}

// splitTemplate splits the text at its columns.
func splitTemplate(text string) (parts []urlPart, err error) {
	var literal strings.Builder
	flush := func() {
		if literal.Len() > 0 {
			parts = append(parts, urlPart{text: literal.String()})
			literal.Reset()
		}
	}
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case c != '{' && c != '}':
			literal.WriteByte(c)
		case strings.HasPrefix(text[i+1:], string(c)):
			literal.WriteByte(c)
			i++
		case c == '}':
			return nil, fmt.Errorf("url has a } at character %d that closes nothing; write }} for the character itself", i+1)
		default:
			name, _, closed := strings.Cut(text[i+1:], "}")
			if !closed || strings.Contains(name, "{") {
				return nil, fmt.Errorf("url has a { at character %d that is not closed; write {column}, or {{ for the character itself", i+1)
			}
			if name == "" {
				return nil, fmt.Errorf("url has {} at character %d; name a column in it", i+1)
			}
			flush()
			parts = append(parts, urlPart{column: name})
			i += len(name) + 1
		}
	}
	flush()
	return parts, nil
}

// placeParts says where in the URL each part stands, cutting literals where
// one place ends and the next begins.
func placeParts(parts []urlPart) ([]urlPart, error) {
	if len(parts) == 0 {
		return nil, errors.New("url is empty; write where to send the records, such as https://example.org/hook")
	}
	scheme, rest, ok := strings.Cut(parts[0].text, "://")
	if !ok && parts[0].column != "" {
		return nil, fmt.Errorf("url begins with {%s}; a column must be the whole url, or stand behind https://", parts[0].column)
	}
	if !ok || !isHTTP(scheme) {
		return nil, errors.New("url must begin with http:// or https://")
	}
	placed := []urlPart{{text: scheme + "://", place: inHost}}
	parts[0].text = rest
	place := inHost
	for i, p := range parts {
		if strings.Contains(p.text, "#") {
			return nil, errors.New("url has a fragment, which is never sent; drop it from the # on, or write %23 for the character itself")
		}
		if p.column != "" {
			p.place = place
			placed = append(placed, p)
			continue
		}
		if i+1 < len(parts) && endsInEscape(p.text) {
			return nil, fmt.Errorf("url has a %% right before {%s}; write %%25 for the character itself", parts[i+1].column)
		}
		for text := p.text; text != ""; {
			end := endOf(place, text)
			if end > 0 {
				placed = append(placed, urlPart{text: text[:end], place: place})
			}
			if text = text[end:]; text != "" {
				place = inPath
				if text[0] == '?' {
					place = inQuery
				}
			}
		}
	}
	return placed, nil
}

// endOf returns how much of the literal text belongs to the place.
func endOf(place urlPlace, text string) int {
	end := -1
	switch place {
	case inHost:
		end = strings.IndexAny(text, "/?")
	case inPath:
		end = strings.IndexByte(text, '?')
	}
	if end < 0 {
		return len(text)
	}
	return end
}

// endsInEscape reports whether the text ends within a percent escape, which a
// value would then complete.
func endsInEscape(text string) bool {
	return strings.Contains(text[max(0, len(text)-2):], "%")
}

func isHTTP(scheme string) bool {
	return strings.EqualFold(scheme, "http") || strings.EqualFold(scheme, "https")
}

// parseURL parses a complete URL of a web server. Its errors show nothing of
// it.
func parseURL(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil: // its text would show the URL
		return nil, errors.New("cannot be read; write it like https://example.org:8443/hook, and percent-escape what is special")
	case !isHTTP(u.Scheme) || u.Opaque != "":
		return nil, errors.New("must begin with http:// or https://")
	case u.Hostname() == "":
		return nil, errors.New("names no host; write it like https://example.org/hook")
	case strings.ContainsFunc(u.Host, func(r rune) bool { return r >= 0x80 }):
		return nil, errors.New("has a host with letters beyond ASCII; write its xn-- form")
	}
	if _, err := strconv.ParseUint(portOf(u), 10, 16); err != nil || len(portOf(u)) > len("65535") {
		return nil, errors.New("has a port beyond 65535; correct it")
	}
	u.Fragment, u.RawFragment = "", ""
	u.RawQuery = escapeQuery(u.RawQuery)
	return u, nil
}

// portOf returns the port of a URL of a web server.
func portOf(u *url.URL) string {
	if p := u.Port(); p != "" {
		return p
	}
	if u.Scheme == "https" {
		return "443"
	}
	return "80"
}

// escapeQuery escapes what may not stand in a query at all; [url.Parse] leaves
// it.
func escapeQuery(query string) string {
	var b strings.Builder
	for i := range len(query) {
		if c := query[i]; c <= ' ' || c >= 0x7f || strings.IndexByte(`"<>`, c) >= 0 {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}
