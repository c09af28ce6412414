package reader

import (
	"encoding/json"
	"testing"
)

// A page shows the text of a column, also of one of JSON or of bytes.
func TestValueText(t *testing.T) {
	for _, x := range []struct {
		value any
		want  string
	}{
		{json.RawMessage(`{"a": 1}`), `{"a": 1}`},
		{[]byte("x"), "x"},
		{"x", "x"},
		{int64(7), "7"},
		{true, "true"},
	} {
		if got := valueText(x.value); got != x.want {
			t.Errorf("%T: got %s, want %s", x.value, got, x.want)
		}
	}
}
