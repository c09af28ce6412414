package checkpoint_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"backlog/backlog"
	"backlog/backlog/checkpoint"
	"backlog/backlog/inspect"
	"backlog/backlog/watch"
	"backlog/internal/testkit"
)

func aPass(n int) watch.Pass {
	return watch.Pass{Tier: "1d", Report: backlog.Report{Selected: n}, Causes: []watch.Cause{{Error: "boom", Records: n, First: []byte("4")}}}
}

// A file of passes that was cut at any byte, as by kill -9, loses the line that was cut
// and no other, also when the next one is written.
func TestPassesAreCut(t *testing.T) {
	f := &checkpoint.File{Path: filepath.Join(t.TempDir(), "state.json")}
	path := filepath.Join(filepath.Dir(f.Path), "state-passes.jsonl")
	for n := range 2 {
		if err := f.AddPass(aPass(n)); err != nil {
			t.Fatal(err)
		}
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for cut := range len(whole) + 1 {
		if err := os.WriteFile(path, whole[:cut], 0o644); err != nil {
			t.Fatal(err)
		}
		lines := bytes.Count(whole[:cut], []byte{'\n'})
		list, err := f.Passes()
		if err != nil || len(list) != lines {
			t.Fatalf("cut at %d: %d passes, %v; want %d", cut, len(list), err, lines)
		}
		if err := f.AddPass(aPass(9)); err != nil {
			t.Fatal(err)
		}
		list, err = f.Passes()
		if err != nil {
			t.Fatalf("cut at %d, then one added: %v", cut, err)
		}
		if len(list) < lines+1 {
			t.Fatalf("cut at %d, then one added: got %d passes, want at least %d", cut, len(list), lines+1)
		}
		if last := list[len(list)-1]; last.Selected != 9 {
			t.Fatalf("cut at %d, then one added: the last pass is %+v, want the added one", cut, last)
		}
		if lines > 0 && list[lines-1].Selected != lines-1 {
			t.Fatalf("cut at %d, then one added: the last whole pass is %+v, want number %d", cut, list[lines-1], lines-1)
		}
	}
}

// A file that is too large keeps its newest passes; of the older ones it keeps a line for each hour and, before the
// last 31 days, for each day. What is read of it for people is bounded, too.
func TestPassesAreFolded(t *testing.T) {
	f := &checkpoint.File{Path: filepath.Join(t.TempDir(), "state.json")}
	path := filepath.Join(filepath.Dir(f.Path), "state-passes.jsonl")
	const lines = 33 << 10
	var b bytes.Buffer
	for n := range lines {
		fmt.Fprintf(&b, `{"tier":"1d","max_age_seconds":86400,"started":"2026-01-%02dT12:00:00Z","selected":%d,"table":"t-1","ages":[{"upto":60,"fresh":[2,1]},{"upto":300,"failed":[3,1],"waited":600}]}`, 1+n*20/lines, n)
		b.WriteString(strings.Repeat(" ", 1023-b.Len()%1024) + "\n")
	}
	if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	last := aPass(9)
	last.Started = inspect.Stamp(time.Date(2026, 2, 3, 12, 0, 0, 0, time.UTC))
	if err := f.AddPass(last); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if len(whole) < 24<<20-2048 || len(whole) > 24<<20+8192 {
		t.Errorf("the file has %d bytes, want 24 MiB", len(whole))
	}
	fresh := 0
	days := 0
	hours := 0
	for line := range bytes.Lines(whole) {
		var p struct {
			Day, Hour, Table string
			Ages             []struct{ Fresh [2]int }
		}
		if err := json.Unmarshal(line, &p); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		if p.Day != "" {
			days++
			testkit.Equal(t, "table", p.Table, "t-1")
		}
		if p.Hour != "" {
			hours++
		}
		if len(p.Ages) > 0 {
			fresh += p.Ages[0].Fresh[0]
		}
	}
	testkit.Equal(t, "fresh attempts in the file", fresh, 2*lines)
	testkit.Equal(t, "folded days", days, 2)
	testkit.Equal(t, "folded hours", hours, 4)
	list, err := f.Passes()
	if err != nil || len(list) != 1000 || list[999].Selected != 9 || list[998].Selected != lines-1 {
		t.Errorf("got %d passes, %v; want the newest 1000", len(list), err)
	}
}

// A pass keeps its most frequent causes.
func TestCausesAreBounded(t *testing.T) {
	f := &checkpoint.File{Path: filepath.Join(t.TempDir(), "state.json")}
	p := aPass(1)
	for len(p.Causes) < 40 {
		p.Causes = append(p.Causes, p.Causes[0])
	}
	if err := f.AddPass(p); err != nil {
		t.Fatal(err)
	}
	list, err := f.Passes()
	if err != nil {
		t.Fatal(err)
	}
	testkit.Equal(t, "causes of a pass", len(list[0].Causes), 20)
}

// What cannot be read is replaced, and named once. Of a file that is too large the newest
// passes stay.
func TestPassesAreReplaced(t *testing.T) {
	for _, x := range []struct {
		name   string
		make   func(path string) error
		reads  string // in the error of reading; "": there is none
		passes int    // of before that stay
	}{
		{"a FIFO", func(path string) error { return syscall.Mkfifo(path, 0o644) }, "is not a regular file", 0},
		{"an endless device", func(path string) error { return os.Symlink("/dev/zero", path) }, "is not a regular file", 0},
		{"a large file", func(path string) error {
			return os.WriteFile(path, bytes.Repeat([]byte(`{"tier":"7d"}`+strings.Repeat(" ", 3<<20)+"\n"), 11), 0o644)
		}, "", 0},
		{"a long file", func(path string) error {
			return os.WriteFile(path, bytes.Repeat([]byte(`{"tier":"7d"}`+strings.Repeat(" ", 1<<17)+"\n"), 257), 0o644)
		}, "", 15},
		{"what is no text", func(path string) error { return os.WriteFile(path, bytes.Repeat([]byte{0xff, 0}, 5000), 0o644) }, "", 0},
	} {
		t.Run(x.name, func(t *testing.T) {
			f := &checkpoint.File{Path: filepath.Join(t.TempDir(), "state.json")}
			path := filepath.Join(filepath.Dir(f.Path), "state-passes.jsonl")
			if err := x.make(path); err != nil {
				t.Fatal(err)
			}
			if _, err := f.Passes(); (err != nil) != (x.reads != "") || err != nil && err.Error() != path+" "+x.reads {
				t.Errorf("reading: got %v, want %s", err, x.reads)
			}
			want := path + " was replaced, and what it told of earlier passes is lost: it could not be read: " + path + " " + x.reads
			if err := f.AddPass(aPass(1)); (err != nil) != (x.reads != "") || err != nil && err.Error() != want {
				t.Errorf("got %v, want %s", err, want)
			}
			if err := f.AddPass(aPass(2)); err != nil {
				t.Errorf("the second: %v", err)
			}
			list, err := f.Passes()
			if err != nil || len(list) != x.passes+2 || list[x.passes+1].Selected != 2 {
				t.Errorf("got %d passes, %v", len(list), err)
			}
		})
	}
}

// What cannot be written is said once.
func TestPassesCannotBeKept(t *testing.T) {
	f := &checkpoint.File{Path: filepath.Join(t.TempDir(), "state.json")}
	if err := os.Mkdir(filepath.Join(filepath.Dir(f.Path), "state-passes.jsonl"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := f.AddPass(aPass(1)); err == nil {
		t.Error("the first is no error")
	}
	if err := f.AddPass(aPass(1)); err != nil {
		t.Errorf("the second is: %v", err)
	}
}

// A symbolic link that leads nowhere is replaced as well, and named once.
func TestPassesBehindALink(t *testing.T) {
	for _, to := range []string{"state-passes.jsonl", "missing/folder"} {
		f := &checkpoint.File{Path: filepath.Join(t.TempDir(), "state.json")}
		path := filepath.Join(filepath.Dir(f.Path), "state-passes.jsonl")
		if err := os.Symlink(to, path); err != nil {
			t.Fatal(err)
		}
		if err := f.AddPass(aPass(1)); err == nil || !strings.Contains(err.Error(), path+" was replaced") {
			t.Errorf("to %s: got %v", to, err)
		}
		if err := f.AddPass(aPass(2)); err != nil {
			t.Errorf("to %s, the second: %v", to, err)
		}
		if list, err := f.Passes(); err != nil || len(list) != 2 {
			t.Errorf("to %s: got %d passes, %v", to, len(list), err)
		}
	}
}
