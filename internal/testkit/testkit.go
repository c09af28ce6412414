// Package testkit has what tests of several packages need. It imports nothing of this
// module, so that every test may use it, those inside a package, too.
//
// Comparing, each fact with a message of its own:
//
//	Equal        got is want, compared deeply
//	Contains     a text has a part
//	NotContains  a text does not have a part
//
// Every helper ends or fails the test by itself.
package testkit

import (
	"reflect"
	"strings"
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
