package config

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"gopkg.in/yaml.v3"
)

const progressive = "progressive"

// A Policy decides which pending records are due. What the file does not say
// is for those to complete who know the policy.
type Policy struct {
	Name string // progressive: by age alone

	// Settings are those that are given, by name and of the type that the
	// setting's [Kind] says. They are nil if there are none.
	Settings map[string]any

	// Columns are the names of the policy's columns that are given, by the name
	// that each has by default. They are nil if there are none.
	Columns map[string]string
}

// Column returns the name of the column that has the other name by default.
func (p Policy) Column(name string) string {
	if own, ok := p.Columns[name]; ok {
		return own
	}
	return name
}

// A PolicySpec tells what can be said about a policy. This package decodes all
// policies alike and knows only one by name: progressive, which has no settings.
type PolicySpec struct {
	Name     string
	Settings []PolicySetting

	// Columns are the default names of the columns it keeps its state in: of
	// the count of failures, of the time of the last one, and others. It has no
	// columns if it keeps none.
	Columns []string

	// Once says that no record is tried a second time, although the policy
	// keeps no state.
	Once bool
}

// A PolicySetting is one setting of a policy.
type PolicySetting struct {
	Name string
	Kind Kind

	// Check returns what is wrong with a value, which is of the kind's type.
	Check func(value any) error
}

// A Kind is how a setting is written, and what it is decoded to.
type Kind int

const (
	Duration  Kind = iota // a duration: time.Duration, not negative
	Seconds               // a duration or a number of seconds: time.Duration, not negative
	Number                // a number: float64, not negative
	Count                 // a whole number: int, not negative
	Durations             // a list of durations: []time.Duration, none negative
)

// ParsePolicy reads what the key policy of the file may hold, in one line: the
// name of a policy, or YAML such as fibonacci: {unit: 5m}, with braces around it
// or without. An error joins one for each thing that is wrong.
func ParsePolicy(text string, known ...PolicySpec) (Policy, error) {
	d := newDecoder("", nil, known)
	top, ok := d.top([]byte(text))
	if !ok {
		return Policy{}, errors.New("neither the name of a policy nor one with settings; write fibonacci or 'fibonacci: {unit: 5m}'")
	}
	p := d.value(top, "", 1).policy()
	if err := d.err(); err != nil {
		return Policy{}, err
	}
	return p, nil
}

// policy decodes the name of a policy, or a mapping from it to its settings.
func (v value) policy() Policy {
	var name string
	settings := v
	if v.isMapping() {
		fields := v.fields()
		if len(fields) != 1 {
			v.fail("must name one policy, not %d", len(fields))
			return Policy{}
		}
		name, settings = fields[0].name, fields[0].value
	} else {
		if !v.isText() {
			v.mismatch("the name of a policy (" + strings.Join(v.d.policyNames(), ", ") + ")")
			return Policy{}
		}
		name = v.text()
		settings.node = &yaml.Node{Kind: yaml.MappingNode} // all at their defaults
	}
	spec, ok := v.d.policies[name]
	if !ok {
		if name != "" {
			v.fail("unknown policy %s; %s", show(name), suggest(name, "known", v.d.policyNames()))
		}
		return Policy{}
	}
	return settings.policyOf(spec)
}

func (d *decoder) policyNames() []string { return slices.Sorted(maps.Keys(d.policies)) }

// policyOf decodes the settings of a policy. For one that has a list among them
// the list alone will do.
func (v value) policyOf(spec PolicySpec) Policy {
	p := Policy{Name: spec.Name}
	known := make(keys)
	for _, s := range spec.Settings {
		known[s.Name] = func(v value) {
			if p.Settings == nil {
				p.Settings = make(map[string]any)
			}
			p.Settings[s.Name] = v.setting(s)
		}
		if s.Kind == Durations && v.isList() {
			known[s.Name](v)
			return p
		}
	}
	if len(spec.Columns) > 0 {
		known["columns"] = func(v value) { p.Columns = v.policyColumns(spec.Columns) }
	}
	v.object(known)
	return p
}

// setting decodes and checks the value of a setting.
func (v value) setting(s PolicySetting) (decoded any) {
	before := len(v.d.errs)
	switch s.Kind {
	case Duration:
		decoded = v.durationFrom(0)
	case Seconds:
		decoded = v.seconds()
	case Number:
		decoded = v.number()
	case Count:
		decoded = v.integer(0)
	case Durations:
		items := v.list("a list of durations such as [0, 1m, 5m]")
		list := make([]time.Duration, len(items))
		for i, item := range items {
			list[i] = item.durationFrom(0)
		}
		decoded = list
	}
	if len(v.d.errs) > before {
		return nil
	}
	if err := s.Check(decoded); err != nil {
		v.fail("%v", err)
	}
	return decoded
}

// policyColumns decodes a mapping from the default names of columns to others.
func (v value) policyColumns(defaults []string) map[string]string {
	own := make(map[string]string)
	known := make(keys)
	for _, name := range defaults {
		known[name] = func(v value) { own[name] = v.text() }
	}
	v.object(known)
	return own
}

// checkPolicy notes a policy that the table and its states do not go with.
func (d *decoder) checkPolicy(c *Config) {
	s := &c.Statuses
	if d.policies[c.Policy.Name].Once && !s.Dead.Given && s.failedIsNew(c.Table.Status) {
		d.failf("policy", "%s needs failed records to be told from new ones, else each is tried again; give statuses.error a value or condition of its own, or add statuses.dead", c.Policy.Name)
	}
	if _, ok := d.lines["on_dead"]; ok && !s.Dead.Given {
		d.failf("on_dead", "no record is ever dead without statuses.dead; add it, such as statuses: {dead: DEAD}, or remove on_dead")
	}
}

// failedIsNew reports whether a record that has failed is still new.
func (s *Statuses) failedIsNew(status string) bool {
	if s.Error.Keep {
		return true
	}
	isNew := s.New.admitted(status)
	return !isNew.without(s.Error.assignments(status)[0]) // the first is what is written
}

// claimPolicy claims the columns that the policy writes.
func (d *decoder) claimPolicy(c *Config, claim func(column, path string)) {
	if d.failed("policy") {
		return // the name of a column may be missing
	}
	p, t := &c.Policy, &c.Table
	for i, name := range d.policies[p.Name].Columns {
		column := p.Column(name)
		path := strings.Join([]string{"policy", p.Name, "columns", name}, ".")
		touched := slices.IndexFunc(t.Touch, func(a Assignment) bool { return a.Column == column })
		switch {
		case slices.ContainsFunc(t.Where, func(w Condition) bool { return w.Column == column }):
			d.failf(path, "the column %s is in table.where: a failure would take the record out of it; name another", show(column))
		case t.Eligible != nil && t.Eligible.Column == column && i != 2, t.Expires != nil && t.Expires.Column == column,
			t.Inserted.Column == column && i != 1:
			d.failf(path, "the column %s is one of the record's own times, which the policy would overwrite; name another", show(column))
		case i == 0 && column == t.Attempts:
			d.failf("table.attempts", "the policy %s counts in the column %s already; remove table.attempts", p.Name, show(column))
		case i == 1 && touched >= 0 && t.Touch[touched].Value.isNow():
			// Each touch writes the time, and the policy's is that of a failure.
		case i == 1 && touched >= 0:
			d.failf(join("table.touch", column), "the policy %s writes the time of a failure there; write now or remove it", p.Name)
		default:
			claim(column, path)
		}
	}
}
