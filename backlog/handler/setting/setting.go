// Package setting has what the settings of several handlers share: placeholders such as
// {column} in texts, and files with secrets or certificate authorities.
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

// Fill replaces each {column} in text by what value returns for it, and {{ and }} by single
// braces. value gets the column's name and the result so far. Fill returns value's first
// error, or one of its own for a brace without its partner.
func Fill(text string, value func(name, before string) (string, error)) (string, error) {
	var b strings.Builder
	for {
		at := strings.IndexAny(text, "{}")
		if at < 0 {
			return b.String() + text, nil
		}
		b.WriteString(text[:at])
		brace := text[at : at+1]
		rest := text[at+1:]
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

// Columns returns the names of the {column} placeholders in a text, in their order and with
// repetitions.
func Columns(text string) (names []string, err error) {
	_, err = Fill(text, func(name, _ string) (string, error) {
		names = append(names, name)
		return "", nil
	})
	return names, err
}

// Text returns the value of a column as text: as JSON has it, but a string without its
// quotes. null reports that the column is NULL. An unknown column is an error.
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
	case json.Unmarshal(b, &s) != nil: // a number, a bool or JSON
		return string(b), false, nil
	case s == nil:
		return "", true, nil
	}
	return *s, false, nil
}

// Authorities reads the certificate authorities that a connection trusts from a PEM file. An
// empty path gives nil, which stands for the system's.
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

// ReadFile reads a regular file of at most 1 MiB. It refuses everything else: reading a FIFO
// could block, and a device could fill the memory.
func ReadFile(path string) ([]byte, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil: // os.ReadFile below returns it
	case !info.Mode().IsRegular() && !info.IsDir():
		return nil, fmt.Errorf("%s is not a regular file", path)
	case info.Size() > 1<<20:
		return nil, fmt.Errorf("%s has more than 1 MiB", path)
	}
	return os.ReadFile(path)
}
