package mysql

import (
	"fmt"
	"strings"

	"backlog/backlog/table/db"
)

// arguments says which type and collation the arguments of a session's statements have.
type arguments struct {
	collation string // of text arguments
	floats    bool   // CAST supports FLOAT
	collates  bool   // CAST supports COLLATE; the result then yields to another collation as a column does
}

// newArguments returns the arguments of a server by its version, such as 10.11.6-MariaDB or 8.0.36.
func newArguments(version, collation string) arguments {
	var major, minor, patch int
	fmt.Sscanf(version, "%d.%d.%d", &major, &minor, &patch)
	number := 1_000_000*major + 1_000*minor + patch
	a := arguments{collation: collation}
	if strings.Contains(version, "MariaDB") {
		a.floats = number >= 10_004_005
		a.collates = number >= 10_011_000
	} else {
		a.floats = number >= 8_000_017
	}
	return a
}

// of returns an expression that gives an argument the type of the column. It returns "" if the
// argument has that type anyway, or if there is no such expression.
func (a arguments) of(c *db.Column, charset, collation string) string {
	name := typeName(c.Decl)
	switch {
	case name == "decimal" || name == "datetime" || name == "time" || name == "date":
		return "CAST(? AS " + strings.ToUpper(name) + length(c.Decl) + ")"
	case name == "timestamp":
		return "CAST(? AS DATETIME" + length(c.Decl) + ")"
	case name == "year" || name == "bit" || c.Class == db.Integer && strings.Contains(c.Decl, "unsigned"):
		return "CAST(? AS UNSIGNED)"
	case c.Class == db.Integer:
		return "CAST(? AS SIGNED)"
	case name == "float" && a.floats:
		return "CAST(? AS FLOAT)"
	case c.Class == db.Real:
		return "(? + 0e0)"
	case is(c.Decl, "json", "uuid", "inet4", "inet6"):
		return "CAST(? AS " + strings.ToUpper(name) + ")"
	case strings.HasSuffix(name, "binary") || strings.HasSuffix(name, "blob"):
		return "CAST(? AS BINARY)"
	case charset == "" || collation == a.collation:
		return ""
	case a.collates:
		return "CAST(? AS CHAR CHARACTER SET " + charset + " COLLATE " + collation + ")"
	}
	return "(CAST(? AS CHAR CHARACTER SET " + charset + ") COLLATE " + collation + ")"
}

// length returns the parentheses behind the name of a type, "" if there are none.
func length(decl string) string {
	from := strings.IndexByte(decl, '(')
	to := strings.IndexByte(decl, ')')
	if from < 0 || to < from {
		return ""
	}
	return decl[from : to+1]
}
