package backlog_test

import (
	"encoding/json"
	"math"
	"testing"

	"backlog/backlog"
)

func TestColumnsJSON(t *testing.T) {
	for _, c := range []struct {
		name   string
		names  []string
		values []any
		want   string
	}{
		{"no columns", nil, nil, `{}`},
		{"in the order of the configuration", []string{"z", "a", "m"}, []any{int64(1), int64(2), int64(3)}, `{"z":1,"a":2,"m":3}`},
		{"NULL", []string{"c"}, []any{nil}, `{"c":null}`},
		{"booleans", []string{"t", "f"}, []any{true, false}, `{"t":true,"f":false}`},
		{"integers in full", []string{"max", "min"}, []any{int64(math.MaxInt64), int64(math.MinInt64)},
			`{"max":9223372036854775807,"min":-9223372036854775808}`},
		{"a float", []string{"c"}, []any{0.1}, `{"c":0.1}`},
		{"text", []string{"c"}, []any{"say \"hi\"\n"}, `{"c":"say \"hi\"\n"}`},
		{"a BLOB as base64", []string{"c"}, []any{[]byte{0xff, 0, 1}}, `{"c":"/wAB"}`},
		{"an empty BLOB", []string{"c"}, []any{[]byte{}}, `{"c":""}`},
		{"JSON as it is", []string{"c"}, []any{json.RawMessage(`{"b":[1,2.50],"a":null}`)}, `{"c":{"b":[1,2.50],"a":null}}`},
		{"a decimal without loss", []string{"c"}, []any{json.RawMessage(`12345678901234567890.123456789`)}, `{"c":12345678901234567890.123456789}`},
		{"a name with a quote and a dot", []string{`a".b`}, []any{int64(1)}, `{"a\".b":1}`},
		{"a name in another script", []string{"größe"}, []any{int64(1)}, `{"größe":1}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := backlog.Record{Names: c.names, Values: c.values}
			got, err := r.ColumnsJSON()
			if err != nil || string(got) != c.want {
				t.Errorf("want %s, got %s, error %v", c.want, got, err)
			}
		})
	}
}

func TestColumnsJSONRefuses(t *testing.T) {
	for _, v := range []any{math.NaN(), math.Inf(1), json.RawMessage(`{`)} {
		r := backlog.Record{Names: []string{"ok", "c"}, Values: []any{int64(1), v}}
		if got, err := r.ColumnsJSON(); err == nil {
			t.Errorf("want an error for the value %v, which JSON cannot say, got %s", v, got)
		}
	}
}

func TestColumn(t *testing.T) {
	r := backlog.Record{Names: []string{"a", "b"}, Values: []any{int64(1), nil}}
	for _, c := range []struct {
		name string
		want any
		ok   bool
	}{
		{"a", int64(1), true},
		{"b", nil, true},
		{"c", nil, false},
		{"A", nil, false},
	} {
		if got, ok := r.Column(c.name); got != c.want || ok != c.ok {
			t.Errorf("want column %q to be %v, present %t; got %v, present %t", c.name, c.want, c.ok, got, ok)
		}
	}
}

func TestLaneString(t *testing.T) {
	if f, e := backlog.Fresh.String(), backlog.Failed.String(); f != "fresh" || e != "failed" {
		t.Errorf("want the lanes to be called fresh and failed, got %s and %s", f, e)
	}
}
