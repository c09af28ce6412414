package advise_test

import (
	"bytes"
	"math"
	"strings"
	"testing"
	"time"

	"backlog/backlog/advise"
)

// addFiles adds files of passes as they are written, folded, cut short and foreign.
func addFiles(f *testing.F) {
	const folded = `{"table":"orders","day":"2026-01-05","ages":[{"upto":60,"fresh":[3,2]},{"upto":null,"failed":[2,1],"waited":9.5,"aged":1e9}]}` + "\n"
	whole := line(0, "orders", someAges)
	for _, text := range []string{
		"", "\n", "{}", "null\n", whole, whole + whole, whole + line(time.Hour, "orders", ""), whole[:len(whole)/2], folded, folded + whole + folded,
		line(0, "a", `,"ages":[]`) + line(-time.Hour, "b", `,"ages":[{"upto":61,"fresh":[1,2]}]`),
		strings.Replace(folded, "9.5", "1e308", 1) + strings.Replace(folded, "9.5", "1.7e308", 1),
		strings.Replace(folded, "[2,1]", "[2147483647,1]", 1) + folded,
		strings.Replace(whole, `"started":"20`, `"started":"99`, 1),
		line(0, "", `,"ages":[]`) + line(time.Hour, "orders", someAges), // one day of two tables, of which one has no name
		`{"tier":"1d","max_age_seconds":1,"started":"0001-01-01T01:00:00Z","ages":[]}`,
		`{"table":"orders","hour":"2026-01-07T11:30:00Z","outcomes":{"failed":-1,"new":9e18},"outage_seconds":1e300,"ages":[{"upto":60,"fresh":[3,2]}]}` + "\n" +
			`{"table":"orders","outage":{"since":"0001-01-05T07:00:00Z","ended":"9999-01-05T07:10:00Z"}}`,
		`{"tier":"1d","max_age_seconds":1e300,"started":"9999-12-31T23:59:59-23:59","duration_seconds":1e300,"ages":[]}`,
	} {
		f.Add([]byte(text))
	}
}

// bands returns the sums of the attempts of all passes with ages.
func bands(t *testing.T, list []advise.Pass) (tried, succeeded int) {
	t.Helper()
	for _, p := range list {
		for _, b := range p.Bands {
			for _, lane := range b.Lanes {
				if lane.Succeeded < 0 || lane.Succeeded > lane.Tried {
					t.Errorf("%d of %d attempts have succeeded", lane.Succeeded, lane.Tried)
				}
				tried += lane.Tried
				succeeded += lane.Succeeded
			}
		}
	}
	return tried, succeeded
}

// FuzzRead shows that of any file each line is a pass, or is counted as left out, and that the passes are in
// their order.
func FuzzRead(f *testing.F) {
	addFiles(f)
	f.Fuzz(func(t *testing.T, file []byte) {
		h, err := advise.Read(bytes.NewReader(file))
		if err != nil {
			t.Fatal(err)
		}
		lines := 0
		for line := range bytes.Lines(file) {
			if len(bytes.TrimSpace(line)) > 0 {
				lines++
			}
		}
		if n := len(h.Passes) + h.LeftOut.Unreadable + h.LeftOut.OtherTable + h.LeftOut.Clock; n > lines {
			t.Errorf("%d lines are %d", lines, n)
		}
		for i := 1; i < len(h.Passes); i++ {
			if h.Passes[i].Started.Before(h.Passes[i-1].Started) {
				t.Errorf("pass %d starts at %v, and the one before at %v", i, h.Passes[i].Started, h.Passes[i-1].Started)
			}
		}
		bands(t, h.Passes)
		isFolded := false
		for _, p := range h.Passes {
			isFolded = isFolded || p.Folded
			if p.Table != "" && p.Table != h.Table {
				t.Errorf("a pass of %q is among those of %q", p.Table, h.Table)
			}
		}
		twice, err := advise.Read(bytes.NewReader(file), bytes.NewReader(file))
		if err != nil || !isFolded && len(twice.Passes) != len(h.Passes) {
			t.Errorf("two copies of a file with %d passes have %d, error %v", len(h.Passes), len(twice.Passes), err)
		}
	})
}

// FuzzFold shows that no attempt of a file is lost when it is folded, and that to fold it again changes nothing.
func FuzzFold(f *testing.F) {
	addFiles(f)
	f.Fuzz(func(t *testing.T, file []byte) {
		from := time.Date(2026, 1, 6, 0, 0, 0, 0, time.UTC)
		folded, err := advise.Fold(bytes.NewReader(file), from)
		if err != nil {
			t.Fatal(err)
		}
		again, err := advise.Fold(bytes.NewReader(folded), from)
		if err != nil || !bytes.Equal(again, folded) {
			t.Errorf("%q\nis folded to %q\nand then to %q, error %v", file, folded, again, err)
		}
		h, err := advise.Read(bytes.NewReader(folded))
		if err != nil || h.LeftOut.Unreadable > 0 {
			t.Errorf("of %q %d lines cannot be read, error %v", folded, h.LeftOut.Unreadable, err)
		}
		whole, _ := advise.Read(bytes.NewReader(file))
		if h.LeftOut.OtherTable+whole.LeftOut.OtherTable+whole.LeftOut.Clock > 0 || hasRepeats(whole, file) {
			return // of those Read drops some
		}
		tried, succeeded := bands(t, whole.Passes)
		gotTried, gotSucceeded := bands(t, h.Passes)
		if tried > math.MaxInt32 {
			return // more than a band can have
		}
		if gotTried != tried || gotSucceeded != succeeded {
			t.Errorf("%d attempts with %d successes are folded to %d with %d: %q, %q", tried, succeeded, gotTried, gotSucceeded, file, folded)
		}
	})
}

// hasRepeats reports whether Read has taken lines of the file for one pass.
func hasRepeats(h *advise.History, file []byte) bool {
	lines := 0
	for line := range bytes.Lines(file) {
		if len(bytes.TrimSpace(line)) > 0 {
			lines++
		}
	}
	return len(h.Passes)+h.LeftOut.Unreadable < lines
}
