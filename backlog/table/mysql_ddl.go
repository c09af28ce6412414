package table

import (
	"context"
	"database/sql"
	"time"
)

func (mysql) newSchema(context.Context, *sql.DB) (string, error) { return "", nil }

func (mysql) types() columnTypes {
	return columnTypes{key: "BIGINT AUTO_INCREMENT PRIMARY KEY", integer: "BIGINT", status: "VARCHAR(191)", text: "TEXT",
		options: " ENGINE = InnoDB DEFAULT CHARSET = utf8mb4", at: mysqlTime}
}

// mysqlTime: CURRENT_TIMESTAMP would be in the zone of whoever inserts, and a
// TIMESTAMP ends in 2038.
func mysqlTime(tc Time, zone *time.Location) (decl, present string) {
	switch {
	case tc.As == "unix_s":
		return "BIGINT", "(UNIX_TIMESTAMP())"
	case tc.As == "unix_ms":
		return "BIGINT", "(CAST(UNIX_TIMESTAMP(NOW(3)) * 1000 AS SIGNED))"
	case tc.As == "unix_us":
		return "BIGINT", "(CAST(UNIX_TIMESTAMP(NOW(6)) * 1000000 AS SIGNED))"
	case tc.As == "julian":
		return "DOUBLE", ""
	case tc.As != "" && tc.As != "native":
		return "VARCHAR(40)", ""
	case zone == nil || zone == time.UTC:
		return "DATETIME(3)", "(UTC_TIMESTAMP(3))"
	}
	return "DATETIME(3)", ""
}

// created: what is there is not to be made anew anywhere.
func (mysql) created(context.Context, *sql.DB, string) ([]string, error) { return nil, nil }
