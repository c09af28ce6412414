// Package setting is what settings of several handlers have in common: columns in
// texts, and files of authorities.
package setting

import (
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"

	"backlog/backlog"
)

// Fill returns a text in which {column} stands for what value returns, and {{ and }}
// for braces. value is told the name of the column and all that stands before it.
func Fill(text string, value func(name, before string) (string, error)) (string, error) {
	var b strings.Builder
	for {
		at := strings.IndexAny(text, "{}")
		if at < 0 {
			return b.String() + text, nil
		}
		b.WriteString(text[:at])
		brace, rest := text[at:at+1], text[at+1:]
		if after, twice := strings.CutPrefix(rest, brace); twice {
			b.WriteString(brace)
			text = after
			continue
		}
		name, after, closed := strings.Cut(rest, "}")
		if brace == "}" || !closed || name == "" || strings.Contains(name, "{") {
			return "", errors.New("has a { or } without the other; write {column} for a column's value, and {{ or }} if the character itself is meant")
		}
		s, err := value(name, b.String())
		if err != nil {
			return "", err
		}
		b.WriteString(s)
		text = after
	}
}

// Columns returns the names in the braces of a text.
func Columns(text string) (names []string, err error) {
	_, err = Fill(text, func(name, _ string) (string, error) {
		names = append(names, name)
		return "", nil
	})
	return names, err
}

// Text returns the value of a column as text, as in JSON but without quotes, and
// whether it is NULL.
func Text(r *backlog.Record, column string) (text string, null bool, err error) {
	v, ok := r.Column(column)
	if !ok {
		return "", false, fmt.Errorf("the record has no column %s; see table.columns", column)
	}
	b, err := json.Marshal(v)
	s := (*string)(nil)
	switch {
	case err != nil:
		return "", false, fmt.Errorf("column %s: %w", column, err)
	case json.Unmarshal(b, &s) != nil: // no string
		return string(b), false, nil
	case s == nil:
		return "", true, nil
	}
	return *s, false, nil
}

// Authorities returns the certificates in a file: nil, the system's, where none is
// named.
func Authorities(path string) (*x509.CertPool, error) {
	if path == "" {
		return nil, nil
	}
	pem, err := ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("ca_file: %w; correct the path or the permissions", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("ca_file: %s holds no certificate in PEM form; name a file that begins with -----BEGIN CERTIFICATE-----", path)
	}
	return pool, nil
}

// ReadFile returns the content of a regular file that is not large: a FIFO would be
// waited for, and a device would fill the memory.
func ReadFile(path string) ([]byte, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil: // os.ReadFile says it
	case !info.Mode().IsRegular() && !info.IsDir():
		return nil, fmt.Errorf("%s is not a regular file", path)
	case info.Size() > 1<<20:
		return nil, fmt.Errorf("%s has more than 1 MiB", path)
	}
	return os.ReadFile(path)
}
