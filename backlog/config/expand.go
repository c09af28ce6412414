package config

import (
	"fmt"
	"regexp"
	"strings"
)

var variable = regexp.MustCompile(`^\$\{([A-Za-z_][A-Za-z0-9_]*)\}`)

// expand replaces each ${NAME} in s by the variable's value and each $${ by a
// literal ${. Any other $ stays, and values are not expanded again. Problems
// say what cannot be replaced; they show names of variables, nothing else of s
// and no values.
func expand(s string, lookup func(string) (string, bool)) (expanded string, problems []string) {
	var b strings.Builder
	for {
		literal, rest, found := strings.Cut(s, "${")
		if !found {
			b.WriteString(s)
			return b.String(), problems
		}
		if before, ok := strings.CutSuffix(literal, "$"); ok {
			b.WriteString(before + "${")
			s = rest
			continue
		}
		b.WriteString(literal)
		m := variable.FindStringSubmatch("${" + rest)
		if m == nil {
			problems = append(problems, "a ${ that begins no ${NAME}; write $${ if the characters themselves are meant")
			s = rest
			continue
		}
		val, ok := lookup(m[1])
		if !ok {
			problems = append(problems, fmt.Sprintf("the environment variable %s is not set; set it, or write $${ if the characters themselves are meant", m[1]))
		}
		b.WriteString(val)
		s = rest[len(m[1])+1:]
	}
}
