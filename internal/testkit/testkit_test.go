package testkit_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"backlog/internal/testkit"
)

// A recorder is a test that only notes what it is told.
type recorder struct{ said []string }

func (r *recorder) Helper() {}

func (r *recorder) Errorf(format string, args ...any) {
	r.said = append(r.said, fmt.Sprintf(format, args...))
}

func (r *recorder) Fatalf(format string, args ...any) { r.Errorf(format, args...) }

// TestHelpersFail holds the helpers to the one thing that no other test would notice: that they
// fail.
func TestHelpersFail(t *testing.T) {
	noon := time.Date(2026, 1, 5, 12, 0, 0, 0, time.UTC)
	r := new(recorder)
	testkit.Equal(r, "same", []int{1}, []int{1})
	testkit.Equal(r, "the same moment", noon, noon.In(time.FixedZone("", 3600)))
	testkit.Contains(r, "has", "abc", "b")
	testkit.NotContains(r, "has not", "abc", "x")
	if len(r.said) > 0 {
		t.Fatalf("want silence, got %q", r.said)
	}
	testkit.Equal(r, "number", 1, 2)
	testkit.Equal(r, "list", []int{1}, nil)
	testkit.Equal(r, "time", noon, noon.Add(1))
	testkit.Contains(r, "text", "abc", "x")
	testkit.NotContains(r, "other", "abc", "b")
	want := []string{
		"number: got 1, want 2",
		"list: got [1], want []",
		"time: got 2026-01-05 12:00:00 +0000 UTC, want 2026-01-05 12:00:00.000000001 +0000 UTC",
		`text: want "x" in it, got "abc"`,
		`other: want no "b" in it, got "abc"`,
	}
	if !slices.Equal(r.said, want) {
		t.Errorf("got %q\nwant %q", r.said, want)
	}
}

func TestMatches(t *testing.T) {
	for _, x := range []struct {
		text, pattern string
		want          bool
	}{
		{"abc", "abc", true},
		{"abcd", "abc", false},
		{"", "", true},
		{"x", "", false},
		{"anything", "…", true},
		{"a b b", "a…b", true},
		{"a b c", "a…b", false},
		{"a b c", "a…b…", true},
		{"one, two, three", "one…two…three", true},
		{"one, three", "one…two…three", false},
		{"before abc", "abc…", false},
		{"aba", "ab…ba", false},
	} {
		testkit.Equal(t, x.text+" is "+x.pattern, testkit.Matches(x.text, x.pattern), x.want)
	}
}
