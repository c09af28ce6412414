package mysql

import (
	"fmt"
	"strings"

	"backlog/backlog/table/db"
)

// arguments say what a session makes of the arguments of statements.
type arguments struct {
	collation string // of texts
	floats    bool   // CAST knows FLOAT
	collates  bool   // CAST takes a collation, which then yields like a column's
}

// newArguments are those of the server of the version, such as 10.11.6-MariaDB or 8.0.36.
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

// of is an expression of the column's type for an argument, "" where an argument is one
// by itself or no expression is.
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

// length is the bracket behind the type's name, "" if there is none.
func length(decl string) string {
	from, to := strings.IndexByte(decl, '('), strings.IndexByte(decl, ')')
	if from < 0 || to < from {
		return ""
	}
	return decl[from : to+1]
}
