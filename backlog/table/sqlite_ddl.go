package table

import (
	"context"
	"database/sql"
	"time"
)

func (sqlite) newSchema(context.Context, *sql.DB) (string, error) { return "", nil }

func (sqlite) types() columnTypes {
	return columnTypes{key: "INTEGER PRIMARY KEY", integer: "INTEGER", status: "TEXT", text: "TEXT", at: sqliteTime}
}

// home: the clock of SQL shows UTC, everywhere.
func (sqlite) home(context.Context, *sql.DB) (zone string, utc bool, err error) {
	return "UTC", true, nil
}

// sqliteTime: only a form that SQLite can write itself has a default.
func sqliteTime(tc Time, zone *time.Location) (decl, present string) {
	switch {
	case tc.As == "unix_s":
		return "INTEGER", "(unixepoch())"
	case tc.As == "unix_ms":
		return "INTEGER", "(CAST(unixepoch('subsec') * 1000 AS INTEGER))"
	case tc.As == "unix_us":
		return "INTEGER", ""
	case tc.As == "julian":
		return "REAL", "(julianday())"
	case tc.As == "" && (zone == nil || zone == time.UTC):
		return "TEXT", "CURRENT_TIMESTAMP"
	}
	return "TEXT", ""
}

// created: the table first, which its indexes need.
func (sqlite) created(ctx context.Context, db *sql.DB, table string) ([]string, error) {
	return texts(ctx, db, "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL AND type IN ('table', 'index') AND tbl_name = ? COLLATE NOCASE ORDER BY type DESC", table)
}
