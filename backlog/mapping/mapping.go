// Package mapping has the words of `table:` and `statuses:`: which columns mean
// what, and which conditions and assignments stand for the states of a record.
package mapping

import (
	"cmp"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"
)

// A Mapping says how a table is to be understood. Names are as written, never
// split on a dot.
type Mapping struct {
	Schema    string       `yaml:"schema"` // "": the connection's default
	Name      string       `yaml:"name"`
	ID        []string     `yaml:"id,names" want:"a name or a list of names"` // the key's columns
	Status    string       `yaml:"status"`                                    // the column of the states' Values; "" if no state has any
	Inserted  Time         `yaml:"inserted"`
	Eligible  *Time        `yaml:"eligible"`                                       // not before; NULL: at once
	Expires   *Time        `yaml:"expires"`                                        // not after; NULL: never
	Where     []Condition  `yaml:"where"`                                          // all must hold
	Touch     []Assignment `yaml:"touch"`                                          // written whenever a record is
	Attempts  string       `yaml:"attempts"`                                       // counted up at an attempt; "": none
	LastError string       `yaml:"last_error"`                                     // the error's text; "": none
	Columns   []string     `yaml:"columns,names" want:"a name or a list of names"` // what the handler is given; nil: every column

	// New has a condition; Success, and Dead if there is one, have an
	// assignment. Error has one unless it is to Keep.
	New, Error, Success, Dead State

	Policy *PolicyColumns // what the policy keeps in the row; nil: nothing

	Zone *time.Location // of time columns without one; nil: UTC, but nobody said so
}

// WithDefaults returns the mapping with the defaults of a configuration file for
// what is missing. The table's name has none.
func (m Mapping) WithDefaults() Mapping {
	if len(m.ID) == 0 {
		m.ID = []string{"id"}
	}
	m.Status = cmp.Or(m.Status, "status")
	m.Inserted.Column = cmp.Or(m.Inserted.Column, "date_inserted")
	for text, s := range map[string]*State{"NEW": &m.New, "ERROR": &m.Error, "SUCCESS": &m.Success} {
		if s.IsZero() {
			s.Values = []Value{{Text: text}}
		}
	}
	return m
}

var yamlWord = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_/]*$`) })

// InYAML returns the texts as the items of a list, quoted where YAML would take one
// for something else.
func InYAML(texts ...string) string {
	other := []string{"null", "true", "false"}
	list := slices.Clone(texts)
	for i, s := range texts {
		if !yamlWord().MatchString(s) || slices.Contains(other, strings.ToLower(s)) {
			list[i] = strconv.Quote(s)
		}
	}
	return strings.Join(list, ", ")
}

// A Time is a column that holds points in time.
type Time struct {
	Column string         `yaml:"column" required:"created_at"`
	As     string         `yaml:"as,form"`                                          // native, unix_s, unix_ms, unix_us, julian or text:<layout>; "": the rows tell
	Zone   *time.Location `yaml:"zone"`                                             // nil: the mapping's
	Null   string         `yaml:"null" words:"skip oldest newest" called:"meaning"` // what NULL means; "": skip, for Eligible at once and for Expires never
	Zero   string         `yaml:"zero" words:"skip oldest newest" called:"meaning"` // what a zero date means, likewise
	Keep   bool           `yaml:"keep"`                                             // write the column back unchanged at settlement, against ON UPDATE
}

// PolicyColumns names the columns of a policy and says what is due by them.
type PolicyColumns struct {
	Count, Last string
	// Of a planned policy, which is due by Next alone; "": a counted one.
	Next, InRetry string

	// Waits are a counted policy's waits by the number of failures, from 0 on;
	// the last applies to every later failure.
	Waits   []time.Duration
	Retries int // records that have failed more often are never due; negative: no end

	// Refresh are the columns of the refresh policy, in the order of [RefreshColumns];
	// nil: another policy, and the fields above are its. A column that is not named,
	// "", is the default one if the table has it. Rule is the column of each row's own
	// recurrence rule; "": there is none.
	Refresh Names
	Rule    string
}

// RefreshColumn returns the name of a column of the refresh policy, and whether somebody
// has named it.
func (p *PolicyColumns) RefreshColumn(i int) (name string, named bool) {
	if i < len(p.Refresh) && p.Refresh[i][0] != "" {
		return p.Refresh[i][0], true
	}
	return RefreshColumns[i], false
}

// Refreshing returns what is meant under the refresh policy: statuses only show what is
// so, and those that nobody has named do not matter, and the next start stands for the
// date of insertion of a table that has none.
func (m Mapping) Refreshing(has func(column string) bool) Mapping {
	for _, s := range m.States() {
		if !s.Given {
			*s.State = State{}
		}
	}
	if !has(m.Inserted.Column) {
		m.Inserted = Time{}
		m.Inserted.Column, _ = m.Policy.RefreshColumn(RefreshAt)
	}
	return m
}

// A Rule is a recurrence rule as RFC 5545 writes it, or the column that has one for
// each row.
type Rule struct{ Text, Column string }

// The columns of the refresh policy, in the order of PolicyColumns.Refresh. A table
// must have the first two.
const (
	RefreshAt = iota
	AttemptNo
	DeadlineAt
	AttemptUID
	StartedAt
	Disabled
	DisabledReason
	FailingSince
)

// RefreshColumns are their default names.
var RefreshColumns = [...]string{"refresh_at", "attempt_no", "deadline_at", "attempt_uid", "started_at", "disabled", "disabled_reason", "failing_since"}

// A Value is a scalar as its author wrote it, such as 007 or false. The column's
// type decides what it becomes.
type Value struct {
	Text   string // "" for null
	Null   bool
	Quoted bool // a quoted now or +1 is text
}

// IsNow reports whether v stands for the time of writing.
func (v Value) IsNow() bool { return v.Text == "now" && !v.Quoted }

// IsIncrement reports whether v stands for one more than before.
func (v Value) IsIncrement() bool { return v.Text == "+1" && !v.Quoted }

// Plain returns v without its quotes, to compare it with others.
func (v Value) Plain() Value { return Value{Text: v.Text, Null: v.Null} }

// String returns v for messages.
func (v Value) String() string {
	if v.Null {
		return "null"
	}
	return Show(v.Text)
}

// A Condition holds where the column equals one of the values; null is IS NULL.
type Condition struct {
	Column string
	Values []Value // at least one
}

// An Assignment sets a column to a value, to the time of the settlement (now)
// or to one more than it was (+1).
type Assignment struct {
	Column string
	Value  Value
}

// A State is a condition that tells which records are in it, and an assignment
// that gets a record into it. Either Values are both, or When and Set are.
type State struct {
	Values []Value      // the status column is one of them, and is set to the first
	When   []Condition  `yaml:"when"`
	Set    []Assignment `yaml:"set"`
	Keep   bool         // the row keeps the state it has
	Given  bool         // the author named the state; false: a default
}

// Is returns the state of rows whose status column has one of the values: a
// record that gets into the state gets the first. The column's type decides
// what a value becomes, a text or a number.
func Is(values ...string) State {
	s := State{Given: true}
	for _, v := range values {
		s.Values = append(s.Values, Value{Text: v, Quoted: v == "now" || v == "+1"})
	}
	return s
}

// IsZero reports whether nothing is said of the state.
func (s State) IsZero() bool {
	return len(s.Values) == 0 && len(s.When) == 0 && len(s.Set) == 0 && !s.Keep
}

// Mentions reports whether s refers to the column if that is the status column.
func (s State) Mentions(column string) bool {
	return len(s.Values) > 0 ||
		slices.ContainsFunc(s.When, func(c Condition) bool { return c.Column == column }) ||
		slices.ContainsFunc(s.Set, func(a Assignment) bool { return a.Column == column })
}

// A Named state is one of a mapping, under its name in `statuses:`.
type Named struct {
	Name string
	*State
}

// States returns the states in the order of a record's life.
func (m *Mapping) States() []Named {
	return []Named{{"new", &m.New}, {"error", &m.Error}, {"success", &m.Success}, {"dead", &m.Dead}}
}

// Show returns text for messages: quoted unless that is clear without, and not
// too long.
func Show(s string) string {
	odd := func(r rune) bool {
		return r == utf8.RuneError || !unicode.IsLetter(r) && !unicode.IsNumber(r) && !strings.ContainsRune("_.:/+-", r)
	}
	if s != "" && utf8.RuneCountInString(s) <= 63 && !strings.ContainsFunc(s, odd) {
		return s
	}
	const most = 60
	if r := []rune(s[:min(len(s), 4*most)]); len(r) > most {
		s = string(r[:most]) + "…"
	}
	return strconv.Quote(s)
}
