package backlog_test

import (
	"encoding/json"
	"testing"

	"backlog/backlog"
)

// What is written quickly is what json.Marshal writes.
func FuzzColumnsJSON(f *testing.F) {
	for _, s := range []string{"", "plain", `a "quoted" \ word`, "Zoë", "<a href='x'>&", "tab\tnul\x00", "\xff", "\u2028", "\x7f"} {
		f.Add(s, s, int64(-1))
	}
	f.Fuzz(func(t *testing.T, name, text string, n int64) {
		r := &backlog.Record{Names: []string{name, "n", "none", "b"}, Values: []any{text, n, nil, []byte(text)}}
		got, err := r.ColumnsJSON()
		if err != nil {
			t.Fatal(err)
		}
		want := "{"
		for i, v := range r.Values {
			k, _ := json.Marshal(r.Names[i])
			x, _ := json.Marshal(v)
			want += string(k) + ":" + string(x) + ","
		}
		if want = want[:len(want)-1] + "}"; string(got) != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	})
}
