package table

import (
	"encoding/json"
	"reflect"
	"testing"
)

func TestArrayJSON(t *testing.T) {
	for _, x := range []struct{ text, element, want string }{
		{"{}", "text", `[]`},
		{`{a,"b c",NULL,"NULL","q\"\\",é}`, "text", `["a","b c",null,"NULL","q\"\\","é"]`},
		{"{{1,2},{3,NULL}}", "int4", `[[1,2],[3,null]]`},
		{"[0:1]={7,8}", "int8", `[7,8]`},
		{"{1.10,NaN,12345678901234567890.5}", "numeric", `[1.10,"NaN",12345678901234567890.5]`},
		{"{t,f}", "bool", `[true,false]`},
		{`{"{\"a\": [1]}"}`, "jsonb", `[{"a": [1]}]`},
		{`{""}`, "text", `[""]`},
		{"", "text", ""}, {"{", "text", ""}, {"{a", "text", ""}, {`{"a`, "text", ""}, {`{"a\`, "text", ""}, {"{a}b", "text", ""}, {"{a,}", "text", ""}, {"{a}{b}", "text", ""}, {"a", "text", ""},
	} {
		got, ok := arrayJSON(x.text, x.element)
		if string(got) != x.want || ok != (x.want != "") {
			t.Errorf("%s of %s: got %s, %v, want %s", x.text, x.element, got, ok, x.want)
		}
	}
}

// FuzzArrayJSON: what is an array is JSON, and what is made of that again is the
// same array.
func FuzzArrayJSON(f *testing.F) {
	for _, s := range []string{"{}", `{a,"b c",NULL}`, "{{1,2},{3,4}}", `{"\\\""}`} {
		f.Add(s, false)
		f.Add(s, true)
	}
	f.Fuzz(func(t *testing.T, text string, numbers bool) {
		element := map[bool]string{true: "int8", false: "text"}[numbers]
		first, ok := arrayJSON(text, element)
		if !ok {
			return
		}
		var want, got any
		if err := json.Unmarshal(first, &want); err != nil {
			t.Fatalf("%s is no JSON: %v", first, err)
		}
		back, ok := arrayText(first, element)
		if !ok {
			t.Fatalf("%s is no array", first)
		}
		again, ok := arrayJSON(back, element)
		if json.Unmarshal(again, &got); !ok || !reflect.DeepEqual(want, got) {
			t.Errorf("%s became %s, then %s", first, back, again)
		}
	})
}
