package config

import "strings"

// SQL are statements that are run for each record in the transaction that
// settles it.
type SQL struct {
	Statements    []string // not empty, none of them blank; with :column for the record's values
	AllowZeroRows bool     // whether a statement that changes no row has worked
}

// statements decodes one SQL statement or a list of them. No variable is
// replaced in them.
func (v value) statements() []string {
	items := []value{v}
	if !v.isText() {
		items = v.filled("an SQL statement or a list of them")
	}
	list := make([]string, len(items))
	for i, item := range items {
		list[i] = item.text()
		if list[i] != "" && strings.TrimSpace(list[i]) == "" {
			item.fail("is empty; fill it in or remove it")
		}
	}
	return list
}
