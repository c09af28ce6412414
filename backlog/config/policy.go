package config

import (
	"maps"
	"slices"

	"gopkg.in/yaml.v3"
)

const progressive = "progressive"

// A Policy decides which pending records are due.
type Policy struct {
	Name string // progressive: by age alone
}

// policies decode the settings of the policy with the name.
var policies = map[string]func(settings value) Policy{
	progressive: func(settings value) Policy {
		settings.object(keys{})
		return Policy{Name: progressive}
	},
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
		name = v.text()
		settings.node = &yaml.Node{Kind: yaml.MappingNode} // all at their defaults
	}
	decode, ok := policies[name]
	if !ok {
		if name != "" {
			v.fail("unknown policy %s; %s", show(name), suggest(name, "known", slices.Sorted(maps.Keys(policies))))
		}
		return Policy{}
	}
	return decode(settings)
}
