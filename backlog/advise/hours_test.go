package advise_test

import (
	"bytes"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"backlog/backlog/advise"
)

// hoursOf returns the hours of table B from 2026-01-05 on, as JSON has them but for the ages.
func hoursOf(t *testing.T, file string) []advise.Hour {
	t.Helper()
	h := advise.NewHours("B", time.Date(2026, 1, 5, 0, 0, 0, 0, time.UTC))
	for line := range strings.Lines(file) {
		h.Add([]byte(line))
	}
	return h.List()
}

// aPass returns the line of a pass at table B.
func aPass(at string, succeeded, failed int) string {
	return fmt.Sprintf(`{"tier":"1d","max_age_seconds":86400,"started":"2026-01-%sZ","table":"B","selected":%d,"succeeded":%d,"failed":%d,"rejected":1,"ages":[{"upto":60,"fresh":[%d,%d]}]}`+"\n",
		at, succeeded+failed+1, succeeded, failed, succeeded+failed, succeeded)
}

// aFile has passes of two tables, two counts, an outage, a broken line and one without ages, in the order in which they are written.
var aFile = aPass("04T23:59:00", 1, 1) +
	aPass("05T10:00:00", 2, 0) +
	`{"table":"B","hour":"2026-01-05T10:00:00Z","counted":{"pending":7,"failed":3}}` + "\n" +
	aPass("05T10:59:59", 1, 4) +
	`{"tier":"1d","max_age_seconds":86400,"started":"2026-01-05T11:05:00Z","table":"A","selected":9,"succeeded":9}` + "\n" +
	`{"tier":"1d","max_age_seconds":86400,"started":"2026-01-05T11:10:00Z","selected":1,"skipped":1}` + "\n" +
	`{"tier":"1d","max_age_sec` + "\n" +
	`{"table":"B","outage":{"since":"2026-01-05T10:30:00Z","ended":"2026-01-05T12:15:00Z"}}` + "\n" +
	`{"table":"B","hour":"2026-01-05T12:00:00Z","counted":{"pending":8,"failed":0}}` + "\n" +
	`{"table":"B","hour":"2026-01-05T12:00:00Z","counted":{"pending":9,"failed":0}}` + "\n"

func TestHours(t *testing.T) {
	type sums struct {
		passes, handled int
		outcomes        map[string]int
		outage          float64
		pending         int
	}
	want := map[int]sums{
		10: {2, 9, map[string]int{"succeeded": 3, "failed": 4, "rejected": 2}, 1800, 7},
		11: {1, 1, map[string]int{"skipped": 1}, 3600, -1},
		12: {0, 0, nil, 900, 9},
	}
	got := make(map[int]sums)
	for _, h := range hoursOf(t, aFile) {
		s := sums{h.Passes, h.Handled, h.Outcomes, h.Outage, -1}
		if h.Counted != nil {
			s.pending = h.Counted.Pending
		}
		got[h.Start.Hour()] = s
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// What a fold of the first lines keeps, and the other lines, add up to the same hours.
func TestHoursAreFolded(t *testing.T) {
	want := hoursOf(t, aFile)
	lines := strings.SplitAfter(aFile, "\n")
	for n := range lines {
		older := strings.Join(lines[:n], "")
		folded, err := advise.Fold(strings.NewReader(older), time.Date(2026, 1, 5, 0, 0, 0, 0, time.UTC))
		if err != nil {
			t.Fatal(err)
		}
		if got := withoutAges(hoursOf(t, string(folded)+strings.Join(lines[n:], ""))); !reflect.DeepEqual(got, want) {
			t.Errorf("after %d lines: %+v\nwant %+v\n%s", n, got, want, folded)
		}
		if kept := bytes.Count(folded, []byte("\n")); n == len(lines)-1 && kept != 1+3+1+1 {
			t.Errorf("%d lines are kept, want a day, three hours of B, one of A and one without a table:\n%s", kept, folded)
		}
	}
}

func withoutAges(list []advise.Hour) []advise.Hour {
	for i := range list {
		list[i].Ages = nil
	}
	return list
}

// An outage that the state file knows as well counts once.
func TestHoursWithOutages(t *testing.T) {
	h := advise.NewHours("B", time.Date(2026, 1, 5, 0, 0, 0, 0, time.UTC))
	at := func(hour, minute int) time.Time { return time.Date(2026, 1, 5, hour, minute, 0, 0, time.UTC) }
	for line := range strings.Lines(aFile) {
		h.Add([]byte(line))
	}
	seconds := make(map[int]float64)
	for _, hour := range h.With([]advise.Interval{{Since: at(10, 30), Ended: at(12, 15)}, {Since: at(12, 30), Ended: at(13, 1)}}) {
		seconds[hour.Start.Hour()] = hour.Outage
	}
	if want := map[int]float64{10: 1800, 11: 3600, 12: 2700, 13: 60}; !reflect.DeepEqual(seconds, want) {
		t.Errorf("%v, want %v", seconds, want)
	}
}

// An outage whose end two processes have seen, one after the other, counts once.
func TestHoursOfAnOutageSeenTwice(t *testing.T) {
	const (
		early = `{"table":"B","outage":{"since":"2026-01-05T10:30:00Z","ended":"2026-01-05T10:40:00Z"}}` + "\n"
		late  = `{"table":"B","outage":{"since":"2026-01-05T10:30:00Z","ended":"2026-01-05T11:05:00Z"}}` + "\n"
	)
	for _, file := range []string{early + late, late + early, early + early + late} {
		list := hoursOf(t, file)
		if len(list) != 2 || list[0].Outage != 1800 || list[1].Outage != 300 {
			t.Errorf("%s: %v, want 1800 s and 300 s", file, list)
		}
	}
	at := func(minute int) time.Time { return time.Date(2026, 1, 5, 10, minute, 0, 0, time.UTC) }
	h := advise.NewHours("B", at(0))
	list := h.With([]advise.Interval{{Since: at(30), Ended: at(40)}, {Since: at(30), Ended: at(45)}})
	if len(list) != 1 || list[0].Outage != 900 {
		t.Errorf("of the state file: %v, want 900 s", list)
	}
}
