package cmd

import (
	"errors"
	"fmt"
	"strings"

	"backlog/backlog"
)

// mostRefusals is how many records that the database refuses are named.
const mostRefusals = 20

// refusals are the records that the database has refused to change: how many, and the first
// of them.
type refusals struct {
	Refused  int       `json:"refused,omitempty"`
	Refusals []refusal `json:"refusals,omitempty"`
}

// A refusal is a record, and what the database said.
type refusal struct {
	ID    backlog.Key `json:"id"`
	Error string      `json:"error"`
}

func (r *refusals) add(key backlog.Key, why error) {
	r.Refused++
	if len(r.Refusals) < mostRefusals {
		r.Refusals = append(r.Refusals, refusal{key, why.Error()})
	}
}

// err names the records; nil: there are none.
func (r *refusals) err() error {
	if r.Refused == 0 {
		return nil
	}
	var text strings.Builder
	fmt.Fprintf(&text, "the database refuses %s, left as before; change the row, or what refuses it, and try again", plural(r.Refused, "record"))
	for _, x := range r.Refusals {
		fmt.Fprintf(&text, "\n%s: %s", shown(x.ID.String()), strings.ReplaceAll(x.Error, "\n", " "))
	}
	if more := r.Refused - len(r.Refusals); more > 0 {
		fmt.Fprintf(&text, "\nand %d more", more)
	}
	return errors.New(text.String())
}
