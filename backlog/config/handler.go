package config

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// A Handler says what processes a record and how many at a time.
type Handler struct {
	// The kind: just one is not nil, or none if Given is false.
	Exec  *Exec
	Lines *Lines
	HTTP  *HTTP
	SQL   *SQL

	Timeout time.Duration // of one attempt; > 0

	// Concurrency is how many records are processed at a time, at least 1 and
	// at most 100,000; of Lines never more than its workers take.
	Concurrency int

	Given bool // whether the file has a handler; without one there are only defaults
}

func defaultHandler() Handler {
	return Handler{Timeout: 30 * time.Second, Concurrency: 4}
}

// kinds are the keys of which a handler has just one.
var kinds = []string{"exec", "lines", "http", "sql"}

// strangers are the keys of a handler that are for one kind only, and what
// does the like in another, where something does.
var strangers = []struct {
	key, kind string
	instead   map[string]string
}{
	{"reject", "exec", map[string]string{"http": "write it under http: {reject: [410]}", "lines": "let a worker answer with the outcome reject"}},
	{"skip", "exec", map[string]string{"lines": "let a worker answer with the outcome skip"}},
	{"workers", "lines", map[string]string{"exec": "use concurrency", "http": "use concurrency", "sql": "use concurrency"}},
	{"window", "lines", map[string]string{"exec": "use concurrency", "http": "use concurrency", "sql": "use concurrency"}},
	{"max_pause", "lines", map[string]string{"http": "write it under http: {max_pause: 1h}"}},
	{"allow_zero_rows", "sql", nil},
}

func (v value) handler() Handler {
	h := defaultHandler()
	h.Given = true
	if v.isText() {
		v.mismatch("a mapping such as {exec: [./deliver.sh]}")
		return h
	}
	exec, lines, sql := defaultExec(), defaultLines(), SQL{}
	v.object(keys{
		"exec":            func(v value) { exec.Command, h.Exec = v.command("./deliver.sh"), &exec },
		"reject":          func(v value) { exec.Reject = v.exitStatuses() },
		"skip":            func(v value) { exec.Skip = v.exitStatuses() },
		"lines":           func(v value) { lines.Command, h.Lines = v.command("./worker"), &lines },
		"workers":         func(v value) { lines.Workers = v.integer(1) },
		"window":          func(v value) { lines.Window = v.integer(1) },
		"max_pause":       func(v value) { lines.MaxPause = v.durationFrom(time.Second) },
		"http":            func(v value) { h.HTTP = v.http() },
		"sql":             func(v value) { sql.Statements, h.SQL = v.statements(), &sql },
		"allow_zero_rows": func(v value) { sql.AllowZeroRows = v.boolean() },
		"timeout":         func(v value) { h.Timeout = v.durationFrom(time.Millisecond) },
		"concurrency":     func(v value) { h.Concurrency = v.concurrency() },
	})
	kind := v.kindOf(kinds, "nothing to run; add exec: [./deliver.sh], or lines, http or sql")
	v.strays(kind)
	switch kind {
	case "exec":
		v.checkExec(&exec)
	case "lines":
		h.Concurrency = v.inFlight(&lines, h.Concurrency)
	}
	return h
}

// mostInFlight is beyond what any handler is given at a time: a slip of the
// keyboard.
const mostInFlight = 100_000

// concurrency returns how many records may be processed at a time.
func (v value) concurrency() int {
	n := v.integer(1)
	if n > mostInFlight && !v.d.failed(v.path) {
		v.fail("must be at most %d, not %d; so many records are never processed at a time", mostInFlight, n)
	}
	return n
}

// kindOf returns which of the kinds v, a mapping already decoded, is of: "" if
// of none, which is an error, or of several, which is another.
func (v value) kindOf(kinds []string, none string) string {
	has := slices.DeleteFunc(slices.Clone(kinds), func(k string) bool { return !v.has(k) })
	if len(has) == 1 {
		return has[0]
	}
	if len(has) == 0 && v.isMapping() {
		v.fail("%s", none)
	}
	if len(has) > 1 {
		line := func(k string) int { return v.d.lines[join(v.path, k)] }
		slices.SortStableFunc(has, func(a, b string) int { return cmp.Compare(line(a), line(b)) })
		text := ""
		for i, k := range has {
			switch {
			case i == len(has)-1:
				text += " and "
			case i > 0:
				text += ", "
			}
			text += fmt.Sprintf("%s on line %d", k, line(k))
		}
		v.d.errorf(line(has[1]), v.path, "there are %s; keep one of them", text)
	}
	return ""
}

// strays notes settings that are for another kind of handler than v is.
func (v value) strays(kind string) {
	for _, s := range strangers {
		if kind == "" || kind == s.kind || !v.has(s.key) {
			continue
		}
		cure := "remove it"
		if instead, ok := s.instead[kind]; ok {
			cure = instead
		}
		v.d.failf(join(v.path, s.key), "is for %s, and this handler is %s; %s", s.kind, kind, cure)
	}
}
