package storetest

import (
	"strings"
	"time"
	"unicode/utf8"

	"backlog/backlog"
)

func testAttempts(f *fixture) {
	var rows []Row
	for _, attempts := range []int{0, 1, 41} {
		for range outcomes {
			r := f.row(len(rows), Failed, time.Duration(len(rows))*time.Minute)
			r.Attempts = attempts
			rows = append(rows, r)
		}
	}
	f.insert(rows...)
	records := f.pending(rows...)
	var group []backlog.Settlement
	for i := range records {
		group = append(group, settlement(&records[i], outcomes[i%len(outcomes)]))
	}
	wantConflicts(f, group, f.settle(group...))
	for i, g := range group {
		if got, want := f.read(g.Record.Key).Attempts, rows[i].Attempts+1; got != want {
			f.Errorf("record %v with %d attempts, after %v: want %d attempts, got %d",
				g.Record.Key, rows[i].Attempts, g.Outcome, want, got)
		}
	}
}

func testLastError(f *fixture) {
	var rows []Row
	for i := range outcomes {
		r := f.row(i, Fresh, time.Duration(i)*time.Minute)
		r.LastError = "of last time"
		rows = append(rows, r)
	}
	f.insert(rows...)
	records := f.pending(rows...)
	for i := range records {
		s := settlement(&records[i], outcomes[i])
		want := "of last time" // a success leaves it
		if s.Outcome != backlog.Succeeded {
			s.Error = "exit status 1: ne marche pas: “été”, 'quoted' \"twice\""
			want = s.Error
		}
		wantConflicts(f, []backlog.Settlement{s}, f.settle(s))
		if got := f.read(s.Record.Key).LastError; got != want {
			f.Errorf("record %v after %v: want last error %q, got %q", s.Record.Key, s.Outcome, want, got)
		}
	}
}

// testLongError has a text that is longer than most columns, of characters of
// two bytes at odd places, so that a cut by bytes shows.
func testLongError(f *fixture) {
	f.insert(f.rows(1, Fresh)...)
	records := f.pending(f.rows(1, Fresh)...)
	s := settlement(&records[0], backlog.Errored)
	s.Error = "x" + strings.Repeat("é", 40_000)
	wantConflicts(f, []backlog.Settlement{s}, f.settle(s))
	got := f.read(s.Record.Key)
	if got.State != Failed {
		f.Errorf("after an error with a text of %d bytes: want state %v, got %v", len(s.Error), Failed, got.State)
	}
	if got.LastError == "" || !strings.HasPrefix(s.Error, got.LastError) || !utf8.ValidString(got.LastError) {
		f.Errorf("last error of %d bytes: want it, or as many whole characters of its beginning as the column takes; "+
			"got %d bytes, valid UTF-8: %t", len(s.Error), len(got.LastError), utf8.ValidString(got.LastError))
	}
}

// testBrokenText has a text that no text column of some databases takes. The
// text may be mended, but it must not stand in the way of the status: a record
// that cannot be settled is tried again and again.
func testBrokenText(f *fixture) {
	f.insert(f.rows(2, Fresh)...)
	records := f.pending(f.rows(2, Fresh)...)
	group := []backlog.Settlement{settlement(&records[0], backlog.Errored), settlement(&records[1], backlog.Errored)}
	group[0].Error = "NUL \x00 and not UTF-8 \xff\xfe"
	wantConflicts(f, group, f.settle(group...))
	for _, g := range group {
		f.wantState(g.Record, "an error with a text that is not UTF-8", Failed)
		if got := f.read(g.Record.Key); got.LastError == "" {
			f.Errorf("record %v: want something of its error in the last error, got nothing", g.Record.Key)
		}
	}
}
