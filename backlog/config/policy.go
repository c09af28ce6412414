package config

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"backlog/backlog/mapping"
)

const progressive = "progressive"

// A Policy decides which pending records are due.
type Policy struct {
	Name     string // progressive: by age alone
	Settings any    // of the type that the [Settings] made; nil for progressive
}

// keeps returns what the policy keeps in the row, as its settings say.
func (p Policy) keeps() mapping.Policy {
	if s, ok := p.Settings.(interface{ Keeps() mapping.Policy }); ok {
		return s.Keeps()
	}
	return mapping.Policy{Name: p.Name}
}

// ParsePolicy reads what the key policy of the file may hold, in one line: the
// name of a policy, or YAML such as fibonacci: {unit: 5m}, with braces around it
// or without. An error joins one for each thing that is wrong.
func ParsePolicy(text string, known ...Settings) (p Policy, err error) {
	isYAML := false
	p, err = parse([]byte(text), "", nil, Known{Policies: known}, func(v value) Policy {
		isYAML = true
		return v.policy()
	})
	if !isYAML {
		err = errors.New("neither the name of a policy nor one with settings; write fibonacci or 'fibonacci: {unit: 5m}'")
	}
	return p, err
}

// policy decodes the name of a policy, or a mapping from it to its settings.
func (v value) policy() (p Policy) {
	known := map[string]Settings{progressive: {New: func() any { return &struct{}{} }}}
	for _, k := range v.d.known.Policies {
		known[k.Name] = k
	}
	words := slices.Sorted(maps.Keys(known))
	name, settings := v, v
	switch {
	case v.isMapping():
		fields := v.fields()
		if len(fields) != 1 {
			v.fail("must name one policy, not %d", len(fields))
			return p
		}
		name.node, settings = &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: fields[0].name}, fields[0].value
	case v.isText():
		settings.node = &yaml.Node{Kind: yaml.MappingNode} // all at their defaults
	default:
		v.mismatch("the name of a policy (" + strings.Join(words, ", ") + ")")
		return p
	}
	if p.Name = name.oneOf("policy", words...); p.Name == "" {
		return p
	}
	s := known[p.Name].New()
	if !settings.shortList(s) {
		settings.settings(s)
	}
	if p.Name != progressive {
		p.Settings = s
	}
	return p
}

// shortList decodes a list into the only list of durations that s has, if it has
// one: that alone will do.
func (v value) shortList(s any) bool {
	for f, tag := range fieldsOf(s) {
		if _, ok := f.Addr().Interface().(*[]time.Duration); ok && v.isList() {
			before := len(v.d.errs)
			if v.field(f, "", "", tag); len(v.d.errs) == before {
				s.(checker).Check(func(_, problem string) { v.fail("%s", problem) })
			}
			return true
		}
	}
	return false
}
