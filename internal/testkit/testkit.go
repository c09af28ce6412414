// Package testkit has what tests of several packages need. Of this module it imports the
// leaf tiers alone, so that every other test may use it, those inside a package, too.
//
// Comparing, each fact with a message of its own:
//
//	Equal        got is want, compared deeply
//	Contains     a text has a part
//	NotContains  a text does not have a part
//	Matches      whether a text is a pattern, in which … stands for anything
//
// Waiting:
//
//	Patience     how long a test waits for what must happen
//	Eventually   until something is so
//
// Making, or the test ends:
//
//	Schedule     a schedule of tiers
//	Zone         a time zone by its name
//	OpenPool     a pool of a database, closed with the test
//	WriteFile    a file with a text
//	ReadFile     the text of a file
//	Buffer       a log that may be written and read at once
package testkit

import (
	"bytes"
	"database/sql"
	"os"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"backlog/tiers"
)

// TB is what the helpers need of a test. *testing.T, *testing.B and *rapid.T have it.
type TB interface {
	Helper()
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// Equal reports an error unless got is want. Values that have a method Equal, as times do,
// are compared by it, others deeply.
func Equal[T any](t TB, what string, got, want T) {
	t.Helper()
	if !equal(got, want) {
		t.Errorf("%s: got %+v, want %+v", what, got, want)
	}
}

func equal[T any](got, want T) bool {
	if x, ok := any(got).(interface{ Equal(T) bool }); ok {
		return x.Equal(want)
	}
	return reflect.DeepEqual(got, want)
}

// Contains reports an error unless the text has the part.
func Contains(t TB, what, text, part string) {
	t.Helper()
	if !strings.Contains(text, part) {
		t.Errorf("%s: want %q in it, got %q", what, part, text)
	}
}

// NotContains reports an error if the text has the part.
func NotContains(t TB, what, text, part string) {
	t.Helper()
	if strings.Contains(text, part) {
		t.Errorf("%s: want no %q in it, got %q", what, part, text)
	}
}

// Matches reports whether the text is the pattern, in which … stands for anything.
func Matches(text, pattern string) bool {
	parts := strings.Split(pattern, "…")
	rest, ok := strings.CutPrefix(text, parts[0])
	if !ok || len(parts) == 1 {
		return ok && rest == ""
	}
	last := len(parts) - 1
	for _, part := range parts[1:last] {
		_, rest, ok = strings.Cut(rest, part)
		if !ok {
			return false
		}
	}
	return strings.HasSuffix(rest, parts[last])
}

// Patience is how long a test waits for what must happen, on however busy a machine.
const Patience = time.Minute

// Eventually ends the test unless cond becomes true.
func Eventually(t TB, what string, cond func() bool) {
	t.Helper()
	for deadline := time.Now().Add(Patience); !cond(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain: %s", what)
			return
		}
	}
}

// Schedule returns the schedule of the tiers.
func Schedule(t TB, list ...tiers.Tier) *tiers.Schedule {
	t.Helper()
	s, err := tiers.New(list...)
	if err != nil {
		t.Fatalf("%v", err)
	}
	return s
}

// Zone returns the time zone of the name.
func Zone(t TB, name string) *time.Location {
	t.Helper()
	zone, err := time.LoadLocation(name)
	if err != nil {
		t.Fatalf("%v", err)
	}
	return zone
}

// OpenPool opens a database as any program does. The pool is closed when the test has ended.
func OpenPool(t testing.TB, driver, dsn string) *sql.DB {
	t.Helper()
	pool, err := sql.Open(driver, dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { pool.Close() })
	return pool
}

// WriteFile writes a file that its owner alone may read.
func WriteFile(t TB, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatalf("%v", err)
	}
}

// ReadFile returns the text of a file.
func ReadFile(t TB, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v", err)
	}
	return string(text)
}

// A Buffer takes a log, and may be written and read at once. The zero value is an empty one.
type Buffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write adds to the buffer.
func (b *Buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

// String returns all that was written.
func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}
