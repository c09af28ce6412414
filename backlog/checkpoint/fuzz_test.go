package checkpoint_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"backlog/backlog/checkpoint"
	"backlog/backlog/watch"
)

// FuzzState shows that any text in the place of the state file is read, or refused with an error, and that what is
// written then is read again as it was.
func FuzzState(f *testing.F) {
	for _, s := range []string{
		"", "{}", "null", "[]", "{", `{"last_wake":"2026-01-05T10:00:00Z","unfinished":["1d"],"resume":{"1d":{}}}`,
		`{"last_wake":"9999-12-31T23:59:59.999999999-23:59"}`, `{"pause":{"until":"2026-01-05T10:00:00Z","by":"\ud800"},"daemon":{"pid":1e3}}`,
		`{"outage":{"since":"2026-01-05T10:00:00Z"},"outages":[{}],"trial":{"of":"x","states":18446744073709551615,"at":"2026-01-05T10:00:00Z"}}`,
		`{"work":{"digests":{"where":"x"}},"resume":{"1d":{"top":{"key":["int:1"]}}}}`,
	} {
		f.Add([]byte(s))
	}
	now := time.Date(2026, 1, 5, 12, 0, 0, 0, time.UTC)
	path := filepath.Join(f.TempDir(), "orders.json")
	f.Fuzz(func(t *testing.T, text []byte) {
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		file := &checkpoint.File{Path: path}
		state, err := file.State()
		if err != nil && err.Error() == "" {
			t.Error("an error without words")
		}
		file.HasLeader(state, now)
		state.Current(now)
		state.Trial.Passed("x", now)
		state.Rivalry(checkpoint.Work{}, true, now)
		before, failed := json.Marshal(state)
		if failed != nil {
			t.Fatal(failed)
		}
		if err := file.Change(func(s *checkpoint.State) { s.LastWake = now }); err != nil {
			t.Fatalf("%q cannot be replaced: %v", text, err)
		}
		state.LastWake = now
		after, err := (&checkpoint.File{Path: path}).State()
		if err != nil {
			t.Fatalf("%q became %s, which cannot be read: %v", text, before, err)
		}
		want, _ := json.Marshal(state)
		if got, _ := json.Marshal(after); string(got) != string(want) {
			t.Errorf("%q was %s\nand is %s", text, want, got)
		}
	})
}

// FuzzPasses shows that any text in the place of the file of passes is read, and that a pass that is added to it is
// the last that is read then.
func FuzzPasses(f *testing.F) {
	for _, s := range []string{
		"", "\n", "{}\n", "null\n{", `{"n":1,"tier":"1d","started":"2026-01-05T10:00:00Z","table":"orders"}` + "\n", `{"tier":"1d"}`, `{"tier":"1d","causes":[{}],"ages":[{}]}` + "\n\x00\n",
	} {
		f.Add([]byte(s), "1d")
	}
	path := filepath.Join(f.TempDir(), "orders")
	f.Fuzz(func(t *testing.T, text []byte, tier string) {
		if err := os.WriteFile(path+"-passes.jsonl", text, 0o600); err != nil {
			t.Fatal(err)
		}
		file := &checkpoint.File{Path: path + ".json"}
		before, err := file.Passes()
		if err != nil {
			t.Fatal(err)
		}
		if tier == "" {
			return
		}
		var p watch.Pass
		p.Tier = tier
		if err := file.AddPass(p); err != nil {
			t.Fatal(err)
		}
		after, err := file.Passes()
		if err != nil || len(after) == 0 {
			t.Fatalf("of %q nothing is read after a pass was added: %v", text, err)
		}
		last, _ := json.Marshal(after[len(after)-1])
		var again watch.Pass
		written, _ := json.Marshal(p)
		_ = json.Unmarshal(written, &again)
		want, _ := json.Marshal(again)
		if string(last) != string(want) {
			t.Errorf("%q: the last pass is %s, want %s", text, last, want)
		}
		if len(after) < len(before) {
			t.Errorf("%q: %d passes were %d", text, len(after), len(before))
		}
	})
}
