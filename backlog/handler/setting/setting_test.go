package setting

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"backlog/backlog"
)

func TestFill(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":               "",
		"plain":          "plain",
		"{a}":            "<a|>",
		"x{a}y{b c}{a}z": "x<a|x>y<b c|x<a|x>y><a|x<a|x>y<b c|x<a|x>y>>z",
		"{{a}}":          "{a}",
		"{{{a}}}":        "{<a|{>}",
		"}}{{":           "}{",
		"{":              "!",
		"}":              "!",
		"{}":             "!",
		"{a{b}":          "!",
		"a}":             "!",
		"{a":             "!",
		"{bad}":          "no bad",
	} {
		got, err := Fill(text, func(name, before string) (string, error) {
			if name == "bad" {
				return "", errors.New("no bad")
			}
			return "<" + name + "|" + before + ">", nil
		})
		if err != nil {
			if got = err.Error(); strings.HasPrefix(got, "has a { or } without the other; ") {
				got = "!"
			}
		}
		if got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	if names, err := Columns("{a}{{{b}}} {a}"); err != nil || !slices.Equal(names, []string{"a", "b", "a"}) {
		t.Errorf("columns %q, %v", names, err)
	}
}

func TestText(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		value any
		want  string
		null  bool
	}{
		{nil, "", true}, {json.RawMessage("null"), "", true}, {"", "", false}, {"a\"<é", "a\"<é", false}, {int64(7), "7", false}, {1.5, "1.5", false},
		{true, "true", false}, {[]byte{0, 0xff}, "AP8=", false}, {json.RawMessage(`"x"`), "x", false}, {json.RawMessage(`[1]`), "[1]", false},
	} {
		r := &backlog.Record{Names: []string{"a"}, Values: []any{c.value}}
		if got, null, err := Text(r, "a"); got != c.want || null != c.null || err != nil {
			t.Errorf("%v: %q, %v, %v", c.value, got, null, err)
		}
		if _, _, err := Text(r, "b"); err == nil || err.Error() != "the record has no column b; see table.columns" {
			t.Errorf("a column that is not there: %v", err)
		}
	}
}
