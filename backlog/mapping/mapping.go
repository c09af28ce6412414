// Package mapping has the words of `table:` and `statuses:`: which columns mean
// what, and which conditions and assignments stand for the states of a record.
package mapping

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/agnivade/levenshtein"

	"backlog/backlog/pattern"
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
	Once   bool           `json:"-"` // the policy never tries a failed record again, though it keeps nothing

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

var yamlWord = pattern.Lazily(`^[A-Za-z_][A-Za-z0-9_/]*$`)

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
		if !s.Explicit {
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
	Values   []Value      // the status column is one of them, and is set to the first
	When     []Condition  `yaml:"when"`
	Set      []Assignment `yaml:"set"`
	Keep     bool         // the row keeps the state it has
	Explicit bool         // the author named the state; false: a default
}

// OfStatus returns the status column's values for the state, and whether other
// columns take part in it.
func (m *Mapping) OfStatus(x State) (values []Value, others bool) {
	values = slices.Clone(x.Values)
	for _, c := range x.When {
		if strings.EqualFold(c.Column, m.Status) {
			values = append(values, c.Values...)
		} else {
			others = true
		}
	}
	return values, others
}

// Is returns the state of rows whose status column has one of the values: a
// record that gets into the state gets the first. The column's type decides
// what a value becomes, a text or a number.
func Is(values ...string) State {
	s := State{Explicit: true}
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

// Check reports where the table, the states and the policy contradict each
// other: after a record was handled, its outcome could not be written, or the
// record would be handled for ever. fail gets the path of a setting and the
// problem with it.
func (m *Mapping) Check(p Policy, fail func(path, problem string)) {
	m.checkSetMeetsWhen(fail)
	m.checkStates(fail)
	m.checkWrites(p, fail)
	if p.Once && !m.Dead.Explicit && m.failedIsNew() {
		fail("policy", p.Name+" needs failed records to be told from new ones, else each is tried again; "+
			"give statuses.error a value or condition of its own, or add statuses.dead")
	}
}

// FirstProblem returns the first of the problems that check reports, as an error, or nil.
func FirstProblem(check func(fail func(field, problem string))) (err error) {
	check(func(field, problem string) {
		err = cmp.Or(err, fmt.Errorf("%s: %s", field, problem))
	})
	return err
}

// checkHalves reports states whose set leads to where their own when is not met.
func (m *Mapping) checkSetMeetsWhen(fail func(path, problem string)) {
	for _, s := range m.States() {
		when := m.condition(State{When: s.When})
		for _, a := range s.Set {
			if values, ok := when[a.Column]; ok && !a.Value.IsIncrement() && excludes(values, a.Value) {
				fail("statuses."+s.Name+".set."+Show(a.Column), fmt.Sprintf(
					"sets %s, which is not what when asks for; a record would not be found in the state it was put in", a.Value))
			}
		}
	}
}

// checkStates reports outcomes that would leave a record in a state it should leave,
// or lead it to the state of another outcome.
func (m *Mapping) checkStates(fail func(path, problem string)) {
	isNew, isError := m.condition(m.New), m.condition(m.Error)
	success, dead := m.condition(m.Success), m.condition(m.Dead)
	refuse := func(state, problem, of string) {
		has := map[string][]Value{"new": m.New.Values, "error": m.Error.Values, "success": m.Success.Values, "dead": m.Dead.Values}
		hint := "write what does not meet the condition of " + of
		for _, v := range has[state] {
			if slices.ContainsFunc(has[of], func(o Value) bool { return o.Plain() == v.Plain() }) {
				problem, hint = fmt.Sprintf("statuses.%s and statuses.%s are both `%s`: %s", state, of, v, problem), "give each a value of its own"
				break
			}
		}
		fail("statuses."+state, problem+"; "+hint)
	}
	if m.leads(m.Success, isNew, isNew) {
		refuse("success", "a record that succeeded would still be new and be tried for ever", "new")
	}
	if m.leads(m.Success, isError, isError) {
		refuse("success", "a record that succeeded would still be in error and be tried for ever", "error")
	} else if m.leads(m.Error, success, isNew, isError) {
		refuse("error", "a failed record could not be told from one that succeeded", "success")
	}
	if m.leads(m.Dead, isNew, isNew) {
		refuse("dead", "a dead record would still be new and be tried for ever", "new")
	}
	if len(m.Error.Set) > 0 && len(m.Error.When) == 0 && !isNew.leadsTo(isNew, m.Error.Set) {
		fail("statuses.error", "a failed record would be neither new nor in error and never be tried again; add when")
	}
	switch {
	case m.leads(m.Dead, success, isNew, isError):
		refuse("dead", "a dead record could not be told from one that succeeded", "success")
	case m.leads(m.Success, dead, isNew, isError):
		refuse("success", "a record that succeeded would be dead", "dead")
	case sameSet(m.Dead.Set, m.Success.Set):
		fail("statuses.dead", "sets just what success does: a dead record could not be told from one that succeeded; set something else")
	}
}

// failedIsNew reports whether a record that has failed is still new.
func (m *Mapping) failedIsNew() bool {
	isNew := m.condition(m.New)
	return m.Error.Keep || isNew.leadsTo(isNew, m.assignmentsInto(m.Error)[0]) // the first is what is written
}

// A condition holds, for columns that it speaks of, the values that meet it.
type condition map[string]map[Value]bool

// condition returns the state's, which is empty for a state without one.
func (m *Mapping) condition(s State) condition {
	if len(s.Values) > 0 {
		s.When = []Condition{{m.Status, s.Values}}
	}
	all := make(condition, len(s.When))
	for _, c := range s.When {
		all[c.Column] = make(map[Value]bool, len(c.Values))
		for _, v := range c.Values {
			all[c.Column][v.Plain()] = true
		}
	}
	return all
}

// leads reports whether some way into the state leads from one of the conditions
// to another.
func (m *Mapping) leads(s State, to condition, from ...condition) bool {
	return len(to) > 0 && slices.ContainsFunc(m.assignmentsInto(s), func(set []Assignment) bool {
		return slices.ContainsFunc(from, func(c condition) bool { return c.leadsTo(to, set) })
	})
}

// leadsTo reports whether every record that met the condition meets the other
// one after the assignments. An increment is trusted to lead away.
func (c condition) leadsTo(to condition, set []Assignment) bool {
	for column, values := range to {
		if i := slices.IndexFunc(set, func(a Assignment) bool { return a.Column == column }); i >= 0 {
			if excludes(values, set[i].Value) {
				return false
			}
			continue
		}
		for v := range c[column] {
			if !values[v] {
				return false
			}
		}
		if len(c[column]) == 0 { // nothing is known of it
			return false
		}
	}
	return true
}

// excludes reports whether v is not among the values. A moment never is.
func excludes(values map[Value]bool, v Value) bool { return v.IsNow() || !values[v.Plain()] }

// ways returns the ways into a state: one for each value, or its assignments.
func (m *Mapping) assignmentsInto(s State) (ways [][]Assignment) {
	for _, v := range s.Values {
		ways = append(ways, []Assignment{{m.Status, v}})
	}
	if len(s.Set) > 0 {
		ways = append(ways, s.Set)
	}
	return ways
}

// sameSet reports whether the assignments are the same, in any order.
func sameSet(a, b []Assignment) bool {
	return len(a) > 0 && len(a) == len(b) &&
		!slices.ContainsFunc(a, func(x Assignment) bool { return !slices.Contains(b, x) })
}

// A Policy is what a mapping has to know of the configured policy.
type Policy struct {
	Name    string
	Once    bool // no record is tried a second time, although the policy keeps no state
	Columns Names
}

// Names are the columns of a policy, each with its default name: the count, the
// time of the last failure and, if it plans, the time of the next attempt and
// whether one is planned.
type Names [][2]string

// checkWrites reports columns that would be written twice in one statement,
// which databases refuse, and key columns that would be written at all.
func (m *Mapping) checkWrites(p Policy, fail func(path, problem string)) {
	owner := make(map[string]string) // of a column that is taken: the path of the key that takes it
	claim := func(column, path string) {
		if by, taken := owner[column]; taken {
			fail(path, fmt.Sprintf("the column %s is taken by %s; remove one of them", Show(column), by))
		} else if column != "" {
			owner[column] = path
		}
	}
	for _, column := range m.ID {
		claim(column, "table.id")
	}
	claim(m.Status, "table.status")
	kept := make(map[string]bool)
	for i, t := range []*Time{&m.Inserted, m.Eligible, m.Expires} {
		if t != nil && t.Keep && !kept[t.Column] {
			kept[t.Column] = true
			claim(t.Column, []string{"table.inserted", "table.eligible", "table.expires"}[i]+".keep")
		}
	}
	for _, a := range m.Touch {
		claim(a.Column, "table.touch."+Show(a.Column))
	}
	claim(m.Attempts, "table.attempts")
	claim(m.LastError, "table.last_error")
	m.checkPolicy(p, claim, fail)
	for _, s := range m.States() {
		for _, a := range s.Set {
			if by, taken := owner[a.Column]; taken && !slices.Contains(maySet[by], s.Name) {
				fail("statuses."+s.Name+".set."+Show(a.Column), "the column is taken by "+by+"; remove one of them")
			}
		}
	}
}

// maySet has the states whose set may name a column that the key at the path
// takes. Attempts are not counted at a reset to new, and error texts are not
// written at a success either: both are there to be cleared.
var maySet = map[string][]string{
	"table.status": {"new", "error", "success", "dead"}, "table.attempts": {"new"}, "table.last_error": {"new", "success"},
}

// checkPolicy claims the columns that the policy writes.
func (m *Mapping) checkPolicy(p Policy, claim, fail func(string, string)) {
	refresh := p.Name == "refresh"
	var count int
	last := 1
	if refresh { // by the next start, which may be named as the date of insertion to say more about it
		count, last = AttemptNo, RefreshAt
	}
	for i, c := range p.Columns {
		column, path := c[0], "policy."+p.Name+".columns."+c[1]
		is := func(t *Time) bool { return t != nil && t.Column == column }
		touched := slices.IndexFunc(m.Touch, func(a Assignment) bool { return a.Column == column })
		switch {
		case slices.ContainsFunc(m.Where, func(w Condition) bool { return w.Column == column }):
			fail(path, "the column "+Show(column)+" is in table.where: a failure would take the record out of it; name another")
		case is(m.Eligible) && (refresh || i != 2), is(m.Expires), is(&m.Inserted) && i != last:
			fail(path, "the column "+Show(column)+" is one of the record's own times, which the policy would overwrite; name another")
		case i == count && column == m.Attempts:
			fail("table.attempts", fmt.Sprintf("the policy %s counts in the column %s already; remove table.attempts", p.Name, Show(column)))
		case i == last && touched >= 0 && !refresh && m.Touch[touched].Value.IsNow():
			// Each touch writes the time, and the policy writes a failure's.
		case i == last && touched >= 0 && !refresh:
			fail("table.touch."+Show(column), "the policy "+p.Name+" writes the time of a failure there; write now or remove it")
		default:
			claim(column, path)
		}
	}
}

// DidYouMean asks for the name that was probably meant, in front of the hint.
func DidYouMean(got string, names []string, hint string) string {
	if best := Near(got, names); best != "" {
		return "did you mean " + Show(best) + "? " + hint
	}
	return hint
}

// DidYouMeanFile is DidYouMean for a file: it looks at those of its kind beside it.
func DidYouMeanFile(path, hint string) string {
	ext := filepath.Ext(path)
	like, _ := filepath.Glob(filepath.Join(filepath.Dir(path), "*"+ext))
	for i := range like {
		like[i] = strings.TrimSuffix(filepath.Base(like[i]), ext)
	}
	if best := Near(strings.TrimSuffix(filepath.Base(path), ext), like); best != "" {
		return "did you mean " + Show(best+ext) + "? " + hint
	}
	return hint
}

// Near returns the word that was probably meant, "" if none is near.
func Near(got string, words []string) (best string) {
	got = normalized(got)
	least := len(got)/3 + 1
	for _, w := range words {
		n := levenshtein.ComputeDistance(got, normalized(w))
		if letters(got) == letters(normalized(w)) { // swapped
			n = min(n, 1)
		}
		if n < least {
			best, least = w, n
		}
	}
	return best
}

var separators = strings.NewReplacer("_", "", "-", "", " ", "")

// fold makes maxAge, max-age and MAX_AGE alike. What is too long to be a slip
// of any key is cut, which bounds the work of comparing.
func normalized(s string) string {
	s = s[:min(len(s), 40)]
	return strings.ToLower(separators.Replace(s))
}

func letters(s string) string {
	b := []byte(s)
	slices.Sort(b)
	return string(b)
}
