package handler

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"backlog/backlog"
)

// expand returns the URL for r. What is wrong is wrong with the record. The
// URL must not be changed.
func (t *urlTemplate) expand(r *backlog.Record) (*url.URL, error) {
	if t.base != nil && len(t.columns) == 0 {
		return t.base, nil
	}
	var e expansion
	for _, p := range t.parts {
		if err := e.add(p, r); err != nil {
			return nil, err
		}
	}
	if err := e.endSegment(); err != nil {
		return nil, err
	}
	u, err := parseURL(e.text.String())
	if err != nil {
		return nil, fmt.Errorf("the url from the record %w", err)
	}
	if t.base == nil && u.User != nil {
		return nil, errors.New("the url from the record has a user in it, which is not allowed")
	}
	if t.base != nil && (u.Scheme != t.base.Scheme || u.Host != t.base.Host) {
		return nil, errors.New("the url from the record leads to another host") // a fence: values are escaped
	}
	return u, nil
}

// An expansion is a URL in the making.
type expansion struct {
	text    strings.Builder
	segment int    // where the current segment of the path begins
	column  string // the last one in it; "": none
}

func (e *expansion) add(p urlPart, r *backlog.Record) error {
	text := p.text
	if p.column != "" {
		value, err := columnText(r, p.column)
		if err != nil {
			return err
		}
		switch p.place {
		case inWhole:
			text = value
		case inHost:
			if strings.ContainsFunc(value, notOfHost) || value == "" {
				return fmt.Errorf("url: column %s holds what no host can be named", p.column)
			}
			text = value
		case inPath:
			e.column = p.column
			text = url.PathEscape(value)
		case inQuery:
			text = url.QueryEscape(value)
		}
	}
	if p.place != inPath {
		e.text.WriteString(text)
		return nil
	}
	for { // a value has no slash left
		before, after, slash := strings.Cut(text, "/")
		e.text.WriteString(before)
		if !slash {
			return nil
		}
		if err := e.endSegment(); err != nil {
			return err
		}
		e.text.WriteByte('/')
		e.segment, text = e.text.Len(), after
	}
}

// endSegment refuses a segment of the path that a value has made a step to
// somewhere else. Escaping does not help: servers take %2E%2E for two dots, and
// some of them ..%2F for a step.
func (e *expansion) endSegment() error {
	column := e.column
	if e.column = ""; column == "" {
		return nil
	}
	raw, _, _ := strings.Cut(e.text.String()[e.segment:], "?")
	if raw == "" {
		return fmt.Errorf("url: column %s is empty, which would make it another path", column)
	}
	segment, err := url.PathUnescape(raw)
	if err != nil {
		return fmt.Errorf("url: column %s makes a path that cannot be read", column)
	}
	for _, s := range strings.FieldsFunc(segment, func(r rune) bool { return r == '/' || r == '\\' }) {
		if s, _, _ = strings.Cut(s, ";"); s == "." || s == ".." {
			return fmt.Errorf("url: column %s would lead out of the path, by %q", column, s)
		}
	}
	return nil
}

// notOfHost reports whether a value in a host, with its port perhaps, may not
// have r: letters, digits and -_. may be in names, :[] in addresses.
func notOfHost(r rune) bool {
	letter := 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z'
	return !letter && !('0' <= r && r <= '9') && !strings.ContainsRune("-_.:[]", r)
}

// columnText returns a value as text: as in JSON, but without quotes.
func columnText(r *backlog.Record, name string) (string, error) {
	v, ok := r.Column(name)
	if !ok {
		return "", fmt.Errorf("url: the record has no column %s; see table.columns", name)
	}
	switch v := v.(type) {
	case string:
		return v, nil
	case int64:
		return strconv.FormatInt(v, 10), nil
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64), nil
	case []byte:
		if v != nil {
			return base64.StdEncoding.EncodeToString(v), nil
		}
	case json.RawMessage:
		var s *string
		if json.Unmarshal(v, &s) != nil {
			return string(v), nil
		}
		if s != nil {
			return *s, nil
		}
	case nil:
	default:
		return fmt.Sprint(v), nil
	}
	return "", fmt.Errorf("url: column %s is NULL", name)
}

// show returns the URL for people: without its user, and with *** for the
// values that the template itself gives in the query, which may be secret.
func (t *urlTemplate) show(u *url.URL) string {
	shown := *u
	shown.User = nil
	if t.base == nil || u.RawQuery == "" {
		return shown.String()
	}
	pairs := strings.Split(u.RawQuery, "&")
	given := t.ownQuery()
	for i, pair := range pairs {
		if name, value, ok := strings.Cut(pair, "="); ok && slices.Contains(given, value) {
			pairs[i] = name + "=***"
		}
	}
	shown.RawQuery = strings.Join(pairs, "&")
	return shown.String()
}

// ownQuery returns the values in the query that have no column in them, as
// they are written.
func (t *urlTemplate) ownQuery() (values []string) {
	query := ""
	for _, p := range t.parts {
		if p.place == inQuery && p.column != "" {
			query += "\x00"
		} else if p.place == inQuery {
			query += p.text
		}
	}
	for pair := range strings.SplitSeq(strings.TrimPrefix(query, "?"), "&") {
		_, value, _ := strings.Cut(pair, "=")
		if value != "" && !strings.Contains(value, "\x00") {
			values = append(values, escapeQuery(value))
		}
	}
	return values
}
