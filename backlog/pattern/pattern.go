// Package pattern has regular expressions that cost nothing at the program's start.
package pattern

import (
	"regexp"
	"sync"
)

// Lazily compiles the expression at its first use: a program that a crontab starts every
// minute would pay for each at its start.
func Lazily(expression string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expression) })
}
