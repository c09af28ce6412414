package mysql

import (
	"fmt"
	"strings"

	"backlog/backlog/table/db"
)

// A caster writes the expressions that give a statement's arguments the types and collations of
// columns, as far as the server has casts to them.
type caster struct {
	collation   string // of a text argument without a cast: the session's
	floatCast   bool   // CAST(? AS FLOAT) is supported
	collateCast bool   // CAST(? AS CHAR COLLATE …) is supported
}

// newCaster returns the caster for a server by its version, such as 10.11.6-MariaDB or 8.0.36, and by
// the collation of the session.
func newCaster(version, collation string) caster {
	var major, minor, patch int
	fmt.Sscanf(version, "%d.%d.%d", &major, &minor, &patch)
	number := 1_000_000*major + 1_000*minor + patch
	c := caster{collation: collation}
	if strings.Contains(version, "MariaDB") {
		c.floatCast = number >= 10_004_005
		c.collateCast = number >= 10_011_000
	} else {
		c.floatCast = number >= 8_000_017
	}
	return c
}

// typedArgument returns an expression with one ?, which gives an argument the type and the collation of
// the column. charset and collation are the column's, both "" if it is no text. It returns "" if a plain
// ? has the same, or if no expression does it.
func (c caster) typedArgument(col *db.Column, charset, collation string) string {
	if sqlType := c.castType(col); sqlType != "" {
		return "CAST(? AS " + sqlType + ")"
	}
	if col.Class == db.Real {
		return "(? + 0e0)" // a DOUBLE in all versions; older ones cannot cast to it
	}
	isText := charset != ""
	if !isText || collation == c.collation {
		return ""
	}
	charType := "CHAR CHARACTER SET " + charset
	if c.collateCast {
		// In the CAST, the collation yields to an explicit one, as the collation of a column does.
		return "CAST(? AS " + charType + " COLLATE " + collation + ")"
	}
	return "(CAST(? AS " + charType + ") COLLATE " + collation + ")"
}

// castType returns the type for CAST(? AS type) whose values compare as the column's do. It returns ""
// for a text, and for a type that CAST does not support.
func (c caster) castType(col *db.Column) string {
	name := typeName(col.Decl)
	switch name {
	case "decimal", "datetime", "time", "date":
		return strings.ToUpper(name) + length(col.Decl)
	case "timestamp":
		return "DATETIME" + length(col.Decl)
	case "json", "uuid", "inet4", "inet6":
		return strings.ToUpper(name)
	case "binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob":
		return "BINARY"
	case "year", "bit":
		return "UNSIGNED"
	case "float":
		if c.floatCast {
			return "FLOAT"
		}
	}
	switch {
	case col.Class != db.Integer:
		return ""
	case strings.Contains(col.Decl, "unsigned"):
		return "UNSIGNED"
	}
	return "SIGNED"
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
