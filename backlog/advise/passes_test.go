package advise_test

import (
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"strings"
	"testing"
	"time"

	"backlog/backlog/advise"
	"backlog/internal/worlds"
)

func TestCollector(t *testing.T) {
	var c advise.Collector
	if text, _ := json.Marshal(&c); string(text) != "[]" {
		t.Errorf("no attempts are %s", text)
	}
	c.Add(advise.Attempt{Lane: advise.Fresh, Age: time.Minute, Succeeded: true}) // on an edge: in the younger band
	c.Add(advise.Attempt{Lane: advise.Fresh, Age: time.Minute})
	c.Add(advise.Attempt{Lane: advise.Failed, Age: 61 * time.Second, Succeeded: true, Waited: 30 * time.Second, WaitKnown: true})
	c.Add(advise.Attempt{Lane: advise.Failed, Age: 70 * time.Second, Waited: 40500 * time.Millisecond, WaitKnown: true})
	c.Add(advise.Attempt{Lane: advise.Failed, Age: 3*time.Hour + 1, Waited: time.Hour, WaitKnown: true})
	c.Add(advise.Attempt{Lane: advise.Failed, Age: 4 * time.Hour})
	c.Add(advise.Attempt{Lane: advise.Failed, Age: 481 * 24 * time.Hour})
	c.Add(advise.Attempt{Lane: advise.Fresh, Age: -time.Second, Succeeded: true}) // a clock is behind
	const want = `[{"upto":60,"fresh":[3,2]},{"upto":120,"failed":[2,1],"waited":70.5,"aged":131},{"upto":21600,"failed":[2,0]},{"upto":null,"failed":[1,0]}]`
	if text, _ := json.Marshal(&c); string(text) != want {
		t.Errorf("%s,\nwant %s", text, want)
	}
}

// line returns a line of a file of passes; more is appended to its fields.
func line(at time.Duration, table, more string) string {
	return fmt.Sprintf(`{"n":%d,"tier":"1d","max_age_seconds":86400,"started":%q,"duration_seconds":0.5,"complete":true,"stopped":"","table":%q%s}`+"\n",
		worlds.Start.Add(at).UnixMilli(), worlds.Start.Add(at).Format(time.RFC3339Nano), table, more)
}

const someAges = `,"ages":[{"upto":60,"fresh":[3,2]},{"upto":600,"failed":[2,1],"waited":600,"aged":1000},{"upto":null,"failed":[1,0]}]`

func read(t *testing.T, files ...string) *advise.History {
	t.Helper()
	var readers []io.Reader
	for _, f := range files {
		readers = append(readers, strings.NewReader(f))
	}
	h, err := advise.Read(readers...)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func starts(h *advise.History) (list []time.Duration) {
	for _, p := range h.Passes {
		list = append(list, p.Started.Sub(worlds.Start))
	}
	return list
}

func TestRead(t *testing.T) {
	const m = time.Minute
	day := `{"day":"2026-01-05","table":"B","ages":[{"upto":60,"fresh":[3,2]}]}` + "\n"
	hour := `{"hour":"2026-01-05T07:00:00Z","table":"B","passes":2,"outcomes":{"succeeded":2},"ages":[{"upto":60,"fresh":[3,2]}]}` + "\n"
	notes := `{"hour":"2026-01-05T07:00:00Z","table":"B","counted":{"pending":2,"failed":1}}` + "\n" +
		`{"table":"B","outage":{"since":"2026-01-05T07:00:00Z","ended":"2026-01-05T07:10:00Z"}}` + "\n"
	for name, c := range map[string]struct {
		files []string
		want  []time.Duration
		out   advise.LeftOut
	}{
		"nothing":      {files: []string{"", ""}},
		"two files":    {[]string{line(5*m, "B", someAges) + line(15*m, "B", someAges), line(10*m, "B", someAges) + line(15*m, "B", someAges)}, []time.Duration{5 * m, 10 * m, 15 * m}, advise.LeftOut{}},
		"no ages":      {[]string{line(0, "", "") + line(5*m, "B", `,"ages":[]`)}, []time.Duration{0, 5 * m}, advise.LeftOut{NoAges: 1}},
		"other table":  {[]string{line(0, "A", someAges) + line(5*m, "A", someAges) + line(6*m, "B", someAges)}, []time.Duration{6 * m}, advise.LeftOut{OtherTable: 2}},
		"no newline":   {[]string{"\n" + strings.TrimSpace(line(0, "B", someAges))}, []time.Duration{0}, advise.LeftOut{}},
		"broken":       {[]string{line(0, "B", someAges)[:99] + "\n{}\n[]\n" + line(5*m, "B", someAges)}, []time.Duration{5 * m}, advise.LeftOut{Unreadable: 3}},
		"long":         {[]string{strings.Repeat("x", 3<<20) + "\n" + line(5*m, "B", "")}, []time.Duration{5 * m}, advise.LeftOut{Unreadable: 1, NoAges: 1}},
		"other edge":   {[]string{line(0, "B", `,"ages":[{"upto":61,"fresh":[1,1]}]`)}, nil, advise.LeftOut{Unreadable: 1}},
		"impossible":   {[]string{line(0, "B", `,"ages":[{"upto":60,"fresh":[1,2]}]`) + line(0, "B", `,"ages":[{"upto":60,"fresh":[1]}]`)}, nil, advise.LeftOut{Unreadable: 2}},
		"future":       {[]string{line(0, "B", "") + line(1e6*m, "B", "") + line(5*m, "B", "") + line(10*m, "B", "")}, []time.Duration{0, 5 * m, 10 * m}, advise.LeftOut{NoAges: 3, Clock: 1}},
		"past":         {[]string{line(100*m, "B", "") + line(105*m, "B", "") + line(5*m, "B", "") + line(110*m, "B", "")}, []time.Duration{100 * m, 105 * m, 110 * m}, advise.LeftOut{NoAges: 3, Clock: 1}},
		"folded":       {[]string{day + line(24*60*m, "B", someAges)}, []time.Duration{0, 24 * 60 * m}, advise.LeftOut{}},
		"folded twice": {[]string{day + line(24*60*m, "B", someAges), day}, []time.Duration{0, 24 * 60 * m}, advise.LeftOut{}},
		"folded here":  {[]string{day + line(24*60*m, "B", someAges), line(5*m, "B", someAges) + line(10*m, "B", someAges)}, []time.Duration{5 * m, 10 * m, 24 * 60 * m}, advise.LeftOut{}},
		"hour":         {[]string{hour + notes + line(24*60*m, "B", someAges)}, []time.Duration{7 * 60 * m, 24 * 60 * m}, advise.LeftOut{}},
		"hour twice":   {[]string{hour, notes + hour}, []time.Duration{7 * 60 * m}, advise.LeftOut{}},
		"hour here":    {[]string{hour, line(5*m, "B", someAges)}, []time.Duration{5 * m}, advise.LeftOut{}},
		"hour, day":    {[]string{day, hour}, []time.Duration{7 * 60 * m}, advise.LeftOut{}},
		"not an hour":  {[]string{`{"hour":"noon","ages":[]}`}, nil, advise.LeftOut{Unreadable: 1}},
		"not a day":    {[]string{`{"day":"yesterday","ages":[]}`}, nil, advise.LeftOut{Unreadable: 1}},
	} {
		h := read(t, c.files...)
		if !reflect.DeepEqual(starts(h), c.want) || h.LeftOut != c.out {
			t.Errorf("%s: %v, %+v", name, starts(h), h.LeftOut)
		}
	}
}

func TestReadFields(t *testing.T) {
	h := read(t, line(5*time.Minute, "B", someAges))
	want := advise.Pass{
		Tier: "1d", Table: "B", Started: worlds.Start.Add(5 * time.Minute), Duration: 500 * time.Millisecond,
		MaxAge: 24 * time.Hour, Complete: true, HasAges: true,
		Bands: []advise.Counts{
			{Band: 0, Lanes: [2]advise.Tally{{Tried: 3, Succeeded: 2}}, Waited: -1, Aged: -1},
			{Band: 3, Lanes: [2]advise.Tally{1: {Tried: 2, Succeeded: 1}}, Waited: 600, Aged: 1000},
			{Band: 24, Lanes: [2]advise.Tally{1: {Tried: 1}}, Waited: -1, Aged: -1},
		},
	}
	if len(h.Passes) != 1 || !reflect.DeepEqual(h.Passes[0], want) {
		t.Errorf("%+v", h.Passes)
	}
}

type brokenFile struct{}

func (brokenFile) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

func TestReadFails(t *testing.T) {
	if _, err := advise.Read(brokenFile{}); err == nil {
		t.Error("no error")
	}
}
