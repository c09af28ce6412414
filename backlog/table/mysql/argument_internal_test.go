package mysql

import (
	"testing"

	"backlog/backlog/table/db"
)

// An argument takes the collation of its column, by what the server can cast to.
func TestCollationOfArguments(t *testing.T) {
	for _, c := range []struct{ version, charset, collation, want string }{
		{"10.11.6-MariaDB", "utf8mb4", "utf8mb4_general_ci", ""}, // the session's
		{"10.11.0-MariaDB", "utf8mb4", "utf8mb4_bin", "CAST(? AS CHAR CHARACTER SET utf8mb4 COLLATE utf8mb4_bin)"},
		{"10.10.7-MariaDB", "utf8mb4", "utf8mb4_bin", "(CAST(? AS CHAR CHARACTER SET utf8mb4) COLLATE utf8mb4_bin)"},
		{"11.0.1-MariaDB", "latin1", "latin1_swedish_ci", "CAST(? AS CHAR CHARACTER SET latin1 COLLATE latin1_swedish_ci)"},
		{"8.0.36", "utf8mb4", "utf8mb4_bin", "(CAST(? AS CHAR CHARACTER SET utf8mb4) COLLATE utf8mb4_bin)"},
		{"10.11.6-MariaDB", "", "", ""}, // no text
	} {
		casts := newCaster(c.version, "utf8mb4_general_ci")
		if got := casts.typedArgument(&db.Column{Decl: "varchar(20)", Class: db.Textual}, c.charset, c.collation); got != c.want {
			t.Errorf("%s, %s: got %q, want %q", c.version, c.collation, got, c.want)
		}
	}
}

// An argument takes the type of its column, by what the server can cast to.
func TestTypesOfArguments(t *testing.T) {
	for _, c := range []struct{ version, decl, want string }{
		{"8.0.36", "int", "CAST(? AS SIGNED)"},
		{"8.0.36", "int unsigned", "CAST(? AS UNSIGNED)"},
		{"8.0.36", "bigint(20) unsigned", "CAST(? AS UNSIGNED)"},
		{"8.0.36", "year", "CAST(? AS UNSIGNED)"},
		{"8.0.36", "bit(12)", "CAST(? AS UNSIGNED)"},
		{"8.0.36", "decimal(5,0) unsigned", "CAST(? AS DECIMAL(5,0))"},
		{"8.0.36", "timestamp(3)", "CAST(? AS DATETIME(3))"},
		{"8.0.36", "varbinary(9)", "CAST(? AS BINARY)"},
		{"8.0.36", "double", "(? + 0e0)"},
		{"8.0.17", "float", "CAST(? AS FLOAT)"},
		{"8.0.16", "float", "(? + 0e0)"},
		{"10.4.5-MariaDB", "float", "CAST(? AS FLOAT)"},
		{"10.4.4-MariaDB", "float", "(? + 0e0)"},
	} {
		col := &db.Column{Decl: c.decl, Class: classes[typeName(c.decl)]}
		if got := newCaster(c.version, "").typedArgument(col, "", ""); got != c.want {
			t.Errorf("%s, %s: got %q, want %q", c.version, c.decl, got, c.want)
		}
	}
}
