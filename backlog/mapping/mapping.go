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
	"backlog/internal/lists"
)

// A Mapping says what the columns of a table mean. Names are used as they are written, and are never
// split at a dot.
type Mapping struct {
	Schema    string       `yaml:"schema"` // "": the default of the connection
	Name      string       `yaml:"name"`
	ID        []string     `yaml:"id,names" want:"a name or a list of names"` // the key's columns
	Status    string       `yaml:"status"`                                    // the column for the Values of states; "" if no state has any
	Inserted  Time         `yaml:"inserted"`
	Eligible  *Time        `yaml:"eligible"`                                       // from then on it may be handled; NULL: at once
	Expires   *Time        `yaml:"expires"`                                        // until then it may be handled; NULL: it does not expire
	Where     []Condition  `yaml:"where"`                                          // all of them must hold
	Touch     []Assignment `yaml:"touch"`                                          // whenever a record is written
	Attempts  string       `yaml:"attempts"`                                       // a column that counts attempts; "": none
	LastError string       `yaml:"last_error"`                                     // a column for the text of the last error; "": none
	Columns   []string     `yaml:"columns,names" want:"a name or a list of names"` // that handlers get; nil: all columns

	// The states. New has a condition. Success has an assignment, and so has Dead if it is used. Error
	// has an assignment unless Keep is set.
	New, Error, Success, Dead State

	Policy *PolicyColumns // the columns of the policy; nil: it has none
	Once   bool           `json:"-"` // the policy never tries a failed record again, although it has no columns

	Zone *time.Location // of time columns that do not name one; nil: UTC, but only by default
}

// WithDefaults returns the mapping with the defaults that a configuration file has. The name of the table
// has no default.
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

// InYAML returns the texts as the items of a YAML list. It quotes those that YAML would misread.
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
	Zone   *time.Location `yaml:"zone"`                                             // nil: the mapping's zone
	Null   string         `yaml:"null" words:"skip oldest newest" called:"meaning"` // the meaning of NULL; "": skip, for Eligible at once, for Expires never
	Zero   string         `yaml:"zero" words:"skip oldest newest" called:"meaning"` // the meaning of a zero date; "": as for Null
	Keep   bool           `yaml:"keep"`                                             // a settlement writes the old value, because ON UPDATE would change it
}

// PolicyColumns are the columns of a policy, and when records are due by them.
type PolicyColumns struct {
	Count, Last string
	// Next and InRetry are for a planned policy, by which a record is due at Next; "": it is a counted policy.
	Next, InRetry string

	// Waits are the waits of a counted policy by the number of failures, from 0 on. The last one
	// applies to all higher numbers.
	Waits   []time.Duration
	Retries int // after more failures than that a record is never due; negative: there is no limit

	// Refresh are the columns of the refresh policy, in the order of [RefreshColumns]; nil: it is
	// another policy, and the fields above are used. An unnamed column, "", is the default one if the
	// table has that. Rule is the column for each row's own recurrence rule; "": none.
	Refresh Names
	Rule    string
}

// RefreshColumn returns the name of a column of the refresh policy, and whether the configuration names
// it.
func (p *PolicyColumns) RefreshColumn(i int) (name string, named bool) {
	if i < len(p.Refresh) && p.Refresh[i][0] != "" {
		return p.Refresh[i][0], true
	}
	return RefreshColumns[i], false
}

// Refreshing returns the mapping as the refresh policy uses it. Under this policy statuses only show the
// state of a row, so states that are not configured have none. If the table has no date of insertion, the
// time of the next start takes its place.
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

// A Rule is a recurrence rule in the notation of RFC 5545, or the column that has one for each row.
type Rule struct{ Text, Column string }

// The columns of the refresh policy, in the order of PolicyColumns.Refresh. A table must have the first
// two.
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

// RefreshColumns are the default names of these columns.
var RefreshColumns = [...]string{"refresh_at", "attempt_no", "deadline_at", "attempt_uid", "started_at", "disabled", "disabled_reason", "failing_since"}

// A Value is a scalar as it is written in the configuration, such as 007 or false. The type of the column
// decides what it becomes.
type Value struct {
	Text   string // "" for null
	Null   bool
	Quoted bool // now and +1 in quotes are texts
}

// IsNow reports whether v means the time of writing.
func (v Value) IsNow() bool { return v.Text == "now" && !v.Quoted }

// IsIncrement reports whether v means one more than before.
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

// A Condition holds if the column equals one of the values, or is NULL if one of the values is null.
type Condition struct {
	Column string
	Values []Value // at least one
}

// An Assignment sets a column to a value, to the time of the settlement (now), or to one more than before
// (+1).
type Assignment struct {
	Column string
	Value  Value
}

// A State of records has a condition for the records that are in the state, and an assignment that brings
// a record into it. Either Values are both, or When and Set are.
type State struct {
	Values   []Value      // the status column is one of them; the first one is written
	When     []Condition  `yaml:"when"`
	Set      []Assignment `yaml:"set"`
	Keep     bool         // the row keeps the state it has
	Explicit bool         // the configuration has the state; false: it is a default
}

// OfStatus returns the values of the status column for the state, and whether its condition has other
// columns too.
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

// StatusTexts returns the values of the status column for the states, NULL as "NULL". It returns nil if the
// condition of one of them has other columns too.
func (m *Mapping) StatusTexts(states ...State) (list []string) {
	for _, x := range states {
		values, others := m.OfStatus(x)
		if others {
			return nil
		}
		for _, v := range values {
			if v.Null {
				v.Text = "NULL"
			}
			list = append(list, v.Text)
		}
	}
	return lists.Distinct(list)
}

// Is returns the state of rows whose status column has one of the values. The first one is written. The
// type of the column decides whether a value becomes a text or a number.
func Is(values ...string) State {
	s := State{Explicit: true}
	for _, v := range values {
		s.Values = append(s.Values, Value{Text: v, Quoted: v == "now" || v == "+1"})
	}
	return s
}

// IsZero reports whether the state has no condition and no assignment.
func (s State) IsZero() bool {
	return len(s.Values) == 0 && len(s.When) == 0 && len(s.Set) == 0 && !s.Keep
}

// Mentions reports whether the status column, which is given, is in the condition or the assignment of s.
func (s State) Mentions(column string) bool {
	return len(s.Values) > 0 ||
		slices.ContainsFunc(s.When, func(c Condition) bool { return c.Column == column }) ||
		slices.ContainsFunc(s.Set, func(a Assignment) bool { return a.Column == column })
}

// A Named state is a state of a mapping with its name in `statuses:`.
type Named struct {
	Name string
	*State
}

// States returns the states in the order in which a record passes through them.
func (m *Mapping) States() []Named {
	return []Named{{"new", &m.New}, {"error", &m.Error}, {"success", &m.Success}, {"dead", &m.Dead}}
}

// Show returns a text for messages: in quotes unless it is clear without, and cut if it is long.
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

// Check reports contradictions between the table, the states and the policy: settings by which an outcome
// could not be written, or a record would be handled for ever. It calls fail with the path of a setting and
// with what is wrong with it.
func (m *Mapping) Check(p Policy, fail func(path, problem string)) {
	m.checkSetMeetsWhen(fail)
	m.checkStates(fail)
	m.checkWrites(p, fail)
	if p.Once && !m.Dead.Explicit && m.failedIsNew() {
		fail("policy", p.Name+" needs failed records to be told from new ones, else each is tried again; "+
			"give statuses.error a value or condition of its own, or add statuses.dead")
	}
}

// FirstProblem returns the first problem that check reports as an error, or nil.
func FirstProblem(check func(fail func(field, problem string))) (err error) {
	check(func(field, problem string) {
		err = cmp.Or(err, fmt.Errorf("%s: %s", field, problem))
	})
	return err
}

// checkSetMeetsWhen reports states whose assignment does not meet their own condition.
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

// checkStates reports outcomes that would leave a record in its old state, or bring it into the state of
// another outcome.
func (m *Mapping) checkStates(fail func(path, problem string)) {
	isNew := m.condition(m.New)
	isError := m.condition(m.Error)
	success := m.condition(m.Success)
	dead := m.condition(m.Dead)
	refuse := func(state, problem, of string) {
		has := map[string][]Value{"new": m.New.Values, "error": m.Error.Values, "success": m.Success.Values, "dead": m.Dead.Values}
		hint := "write what does not meet the condition of " + of
		for _, v := range has[state] {
			if slices.ContainsFunc(has[of], func(o Value) bool { return o.Plain() == v.Plain() }) {
				problem = fmt.Sprintf("statuses.%s and statuses.%s are both `%s`: %s", state, of, v, problem)
				hint = "give each a value of its own"
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

// failedIsNew reports whether a failed record would still be new.
func (m *Mapping) failedIsNew() bool {
	isNew := m.condition(m.New)
	written := m.assignmentsInto(m.Error)
	return m.Error.Keep || isNew.leadsTo(isNew, written[0])
}

// A condition has the values that meet it for each of its columns.
type condition map[string]map[Value]bool

// condition returns the condition of a state, which is empty if it has none.
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

// leads reports whether an assignment into the state can lead from one of the conditions to the condition
// to.
func (m *Mapping) leads(s State, to condition, from ...condition) bool {
	return len(to) > 0 && slices.ContainsFunc(m.assignmentsInto(s), func(set []Assignment) bool {
		return slices.ContainsFunc(from, func(c condition) bool { return c.leadsTo(to, set) })
	})
}

// leadsTo reports whether every record that meets c meets the condition to after the assignments. An
// increment is assumed to lead away from any condition.
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
		if len(c[column]) == 0 { // c says nothing about the column
			return false
		}
	}
	return true
}

// excludes reports whether v is not among the values. The current time never is.
func excludes(values map[Value]bool, v Value) bool { return v.IsNow() || !values[v.Plain()] }

// assignmentsInto returns the possible assignments into a state. The first one is what a settlement writes.
func (m *Mapping) assignmentsInto(s State) (ways [][]Assignment) {
	for _, v := range s.Values {
		ways = append(ways, []Assignment{{m.Status, v}})
	}
	if len(s.Set) > 0 {
		ways = append(ways, s.Set)
	}
	return ways
}

// sameSet reports whether both have the same assignments, in any order.
func sameSet(a, b []Assignment) bool {
	return len(a) > 0 && len(a) == len(b) &&
		!slices.ContainsFunc(a, func(x Assignment) bool { return !slices.Contains(b, x) })
}

// A Policy is what [Mapping.Check] has to know about the configured policy.
type Policy struct {
	Name    string
	Once    bool // no record is tried a second time, although the policy has no columns
	Columns Names
}

// Names are the columns of a policy, each with its default name: the number of failures and the time of the
// last one. A policy that plans also has the time of the next attempt, and whether one is planned.
type Names [][2]string

// checkWrites reports columns that a statement would write twice, which databases refuse, and key columns
// that would be written.
func (m *Mapping) checkWrites(p Policy, fail func(path, problem string)) {
	owner := make(map[string]string) // from a column that is taken to the path of the setting that takes it
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
	keep := func(setting string, t *Time) {
		if t != nil && t.Keep && !kept[t.Column] {
			kept[t.Column] = true
			claim(t.Column, setting+".keep")
		}
	}
	keep("table.inserted", &m.Inserted)
	keep("table.eligible", m.Eligible)
	keep("table.expires", m.Expires)
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

// maySet has the states whose assignment may name a column that another setting takes. Attempts are not
// counted when a record becomes new again, and no error text is written then or at a success, so that
// these states may clear the columns.
var maySet = map[string][]string{
	"table.status": {"new", "error", "success", "dead"}, "table.attempts": {"new"}, "table.last_error": {"new", "success"},
}

// checkPolicy claims the columns that the policy writes.
func (m *Mapping) checkPolicy(p Policy, claim, fail func(string, string)) {
	refresh := p.Name == "refresh"
	var count int
	last := 1
	if refresh { // RefreshAt may be configured as the date of insertion, in order to describe its form
		count = AttemptNo
		last = RefreshAt
	}
	for i, c := range p.Columns {
		column := c[0]
		path := "policy." + p.Name + ".columns." + c[1]
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
			// Both write the time: touch at every write, and the policy at a failure.
		case i == last && touched >= 0 && !refresh:
			fail("table.touch."+Show(column), "the policy "+p.Name+" writes the time of a failure there; write now or remove it")
		default:
			claim(column, path)
		}
	}
}

// DidYouMean returns the hint, after a question for the name that was probably meant.
func DidYouMean(got string, names []string, hint string) string {
	if best := Near(got, names); best != "" {
		return "did you mean " + Show(best) + "? " + hint
	}
	return hint
}

// DidYouMeanFile is [DidYouMean] for a file. It considers files with the same extension in its folder.
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

// Near returns the one of the words that was probably meant, "" if none is similar.
func Near(got string, words []string) (best string) {
	got = normalized(got)
	maxDistance := len(got) / 3
	bestDistance := maxDistance + 1
	for _, word := range words {
		w := normalized(word)
		distance := levenshtein.ComputeDistance(got, w)
		if sortedLetters(got) == sortedLetters(w) { // letters in another order are one typo
			distance = min(distance, 1)
		}
		if distance < bestDistance {
			best = word
			bestDistance = distance
		}
	}
	return best
}

var separators = strings.NewReplacer("_", "", "-", "", " ", "")

// normalized returns the same text for maxAge, max-age and MAX_AGE. It cuts what is too long to be a typo
// of any key, which limits the work of comparing.
func normalized(s string) string {
	s = s[:min(len(s), 40)]
	return strings.ToLower(separators.Replace(s))
}

// sortedLetters returns the letters of a text in alphabetical order.
func sortedLetters(s string) string {
	b := []byte(s)
	slices.Sort(b)
	return string(b)
}
