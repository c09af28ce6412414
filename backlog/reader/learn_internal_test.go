package reader

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"backlog/backlog/checkpoint"
	"backlog/backlog/web"
)

// writePasses writes passes of nine days to the state folder of the reader. Of 100 new records a pass finds, 27 fail at
// first, and about half of what is left recovers every six hours.
func writePasses(t *testing.T, r *Reader) {
	t.Helper()
	folder := t.TempDir()
	r.State = &checkpoint.File{Path: filepath.Join(folder, "state.json")}
	bands := `{"upto":21600,"fresh":[100,73]},{"upto":43200,"failed":[27,13]},{"upto":64800,"failed":[14,6]},{"upto":86400,"failed":[8,3]},{"upto":172800,"failed":[12,4]}`
	var lines strings.Builder
	start := time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)
	for i := range 36 {
		at := start.Add(time.Duration(i) * 6 * time.Hour)
		fmt.Fprintf(&lines, `{"tier":"2d","max_age_seconds":172800,"started":%q,"complete":true,"table":"orders-1","ages":[%s]}`+"\n", at.Format(time.RFC3339), bands)
	}
	if err := os.WriteFile(filepath.Join(folder, "state-passes.jsonl"), []byte(lines.String()), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestReaderLearns(t *testing.T) {
	r, _ := readerOf(t, "tiers: [{max_age: 2d, every: 6h}]",
		`INSERT INTO orders (id, status, date_inserted) VALUES (1, 'NEW', datetime('now', '-3 hours')), (2, 'ERROR', datetime('now', '-20 hours'))`)
	const other = "tiers: [{max_age: 2d, every: 1h}]"
	if err := r.learn(); err != nil || r.Now().Learned != nil {
		t.Fatalf("without passes: %v, %+v", err, r.Now().Learned)
	}
	s, err := r.Simulate(t.Context(), other)
	if err != nil || s.Assumed != web.AllFail {
		t.Errorf("%q is assumed without passes: %v", s.Assumed, err)
	}

	writePasses(t, r)
	if err := r.learn(); err != nil {
		t.Fatal(err)
	}
	l := r.Now().Learned
	if l == nil || l.Records != 3500 || l.Recoveries < 500 || l.Oldest() != 48*time.Hour {
		t.Fatalf("learned: %+v", l)
	}
	if l.Sentence != "Today's schedule is as good as any." {
		t.Errorf("the sentence is %q", l.Sentence)
	}
	for i, p := range l.Points {
		if p.Low > p.Share || p.Share > p.High || i > 0 && p.Share > l.Points[i-1].Share {
			t.Errorf("the share at %v is %v to %v", p.Age, p.Low, p.High)
		}
	}
	s, err = r.Simulate(t.Context(), other)
	if err != nil || s.Assumed != web.AsLearned {
		t.Errorf("%q is assumed with passes: %v", s.Assumed, err)
	}
	if calls := s.Rows[0][1]; calls == "0" || len(s.Plot) == 0 {
		t.Errorf("the simulation has %v", s.Rows)
	}
}
