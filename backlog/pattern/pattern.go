// Package pattern compiles regular expressions at their first use.
package pattern

import (
	"regexp"
	"sync"
)

// Lazily returns a function that compiles the expression at its first call. A program that a
// crontab starts every minute would otherwise compile all of them at each start.
func Lazily(expression string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expression) })
}
