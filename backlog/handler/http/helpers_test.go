package http_test

import (
	"os"
	"path/filepath"
	"testing"

	"backlog/backlog"
)

// file writes a file and returns its path.
func file(t testing.TB, dir, name, content string, mode os.FileMode) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(content), mode); err != nil {
		t.Fatal(err)
	}
	return path
}

// read returns the content of a file.
func read(t testing.TB, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// newRecord returns a record with the key 7.
func newRecord() *backlog.Record {
	return &backlog.Record{
		Key: backlog.NewKey(int64(7)), Status: "NEW",
		Names: []string{"id"}, Values: []any{int64(7)},
	}
}

// wantError fails unless err has the text and stands for the outcome.
func wantError(t testing.TB, err error, text string, outcome backlog.Outcome) {
	t.Helper()
	got := ""
	if err != nil {
		got = err.Error()
	}
	if got != text {
		t.Errorf("error %q, want %q", got, text)
	}
	if o := backlog.OutcomeOf(err); o != outcome {
		t.Errorf("outcome %v, want %v", o, outcome)
	}
}
