// Package lists has the functions on slices that package slices lacks.
package lists

import "slices"

// Map returns the results of f for the elements of list. It never returns nil.
func Map[From, To any](list []From, f func(From) To) []To {
	out := make([]To, len(list))
	for i, v := range list {
		out[i] = f(v)
	}
	return out
}

// Distinct returns the elements of list without repetitions, in the order of their first occurrence.
func Distinct[T comparable](list []T) (distinct []T) {
	for _, v := range list {
		if !slices.Contains(distinct, v) {
			distinct = append(distinct, v)
		}
	}
	return distinct
}

// NonEmpty returns the texts that are not empty. It overwrites the slice texts.
func NonEmpty(texts ...string) []string {
	return slices.DeleteFunc(texts, func(s string) bool { return s == "" })
}
