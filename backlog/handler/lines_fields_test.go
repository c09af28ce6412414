package handler

import (
	"encoding/json"
	"maps"
	"testing"
)

// What fields yields of an object is what encoding/json finds in it.
func FuzzFields(f *testing.F) {
	for _, s := range []string{
		`{}`, ` { "a" : 1 , "b":[{"c":"}"},[]], "\u0061":"x\"\\" }` + "\r", `{"a":{},"b":-1.5e+9,"c":null,"":true}`, "{\"\xe9\":\"\xe9\"}",
		`{"a":"\ud800"}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		var want map[string]json.RawMessage
		if json.Unmarshal(line, &want) != nil || want == nil {
			return
		}
		got := make(map[string]string)
		for name, value := range fields(line) {
			got[name] = string(value)
			var text string
			if kindOf(value) == "string" {
				if err := json.Unmarshal(value, &text); err != nil || text != textOf(value) {
					t.Errorf("%q: %q, want %q", value, textOf(value), text)
				}
			}
		}
		plain := make(map[string]string, len(want))
		for name, value := range want {
			plain[name] = string(value)
		}
		if !maps.Equal(got, plain) {
			t.Errorf("%q: %q, want %q", line, got, plain)
		}
	})
}
