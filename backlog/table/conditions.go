package table

import "strings"

// conditions are some of a statement's, with the arguments that they have.
type conditions struct {
	list []string
	args []any
}

// add adds a condition and its arguments, unless it is "".
func (c *conditions) add(cond string, args []any) {
	if cond != "" {
		c.list = append(c.list, cond)
		c.args = append(c.args, args...)
	}
}

// all is met by rows that meet all of them.
func (c conditions) all() string { return strings.Join(c.list, " AND ") }

// any is met by rows that meet one of them; "" if there are none.
func (c conditions) any() string {
	if len(c.list) == 0 {
		return ""
	}
	return "(" + strings.Join(c.list, " OR ") + ")"
}
