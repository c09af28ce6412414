package config

import (
	"regexp"
	"strings"
)

var variable = regexp.MustCompile(`^\$\{([A-Za-z_][A-Za-z0-9_]*)\}`)

// expand replaces each ${NAME} in s by the variable's value and each $${ by a
// literal ${. Any other $ stays, and values are not expanded again. Problems
// say what cannot be replaced, each once; they show names of variables, nothing
// else of s and no values.
func expand(s string, lookup func(string) (string, bool)) (expanded string, problems []string) {
	var b strings.Builder
	seen := make(map[string]bool)
	problem := func(p string) {
		if !seen[p] {
			seen[p] = true
			problems = append(problems, p)
		}
	}
	for {
		i := strings.Index(s, "${")
		if i < 0 {
			b.WriteString(s)
			return b.String(), problems
		}
		if i > 0 && s[i-1] == '$' {
			b.WriteString(s[:i-1] + "${")
			s = s[i+2:]
			continue
		}
		b.WriteString(s[:i])
		s = s[i:]
		m := variable.FindStringSubmatch(s)
		if m == nil {
			problem("a ${ that begins no ${NAME}; write $${ if the characters themselves are meant")
			s = s[2:]
			continue
		}
		value, ok := lookup(m[1])
		if !ok {
			problem("the environment variable " + m[1] + " is not set; set it, or write $${ if the characters themselves are meant")
		}
		b.WriteString(value)
		s = s[len(m[0]):]
	}
}
