package inspect_test

import (
	"encoding/json"
	"maps"
	"slices"
	"testing"

	"backlog/backlog/inspect"
)

// TestUncountedHasAllFields compares a status that is not counted with one that is.
func TestUncountedHasAllFields(t *testing.T) {
	names := func(status any) []string {
		t.Helper()
		text, err := json.Marshal(status)
		if err != nil {
			t.Fatal(err)
		}
		var fields map[string]any
		if err := json.Unmarshal(text, &fields); err != nil {
			t.Fatal(err)
		}
		return slices.Sorted(maps.Keys(fields))
	}
	if got, want := names(inspect.Uncounted{}), names(inspect.Status{}); !slices.Equal(got, want) {
		t.Errorf("uncounted has %v, a status %v", got, want)
	}
}
