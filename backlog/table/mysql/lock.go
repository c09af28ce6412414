package mysql

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"fmt"
	"strings"

	"backlog/backlog/table/db"
)

// sessionLocks returns the named locks of a server (GET_LOCK). The caller sets Connector, or Pool for a
// pool of the calling program.
func sessionLocks() *db.SessionLocks {
	return &db.SessionLocks{
		Server: &server{},
		Prepare: func(ctx context.Context, _ *sql.DB, conn *sql.Conn) error {
			_, err := conn.ExecContext(ctx, fmt.Sprintf("SET wait_timeout = %d", db.LockIdle))
			return err
		},
		Take:   "GET_LOCK(?, 0)",
		Held:   "IS_USED_LOCK(?) = CONNECTION_ID()",
		Drop:   "RELEASE_LOCK(?)",
		Holder: "IS_USED_LOCK(?)",
		Key:    func(c *db.Catalog, name string) string { return LockText(c.Database, c.Name, name) },
	}
}

// LockText returns the server's name of a lock, which has at most 64 bytes. It is readable as far as
// that allows, and its hash keeps it apart from the names of other tables.
func LockText(schema, table, name string) string {
	sum := sha256.Sum256([]byte(schema + "\x00" + table + "\x00" + name))
	hash := fmt.Sprintf(" %x", sum[:8])
	text := "backlog " + name + " " + schema + "." + table
	return strings.ToValidUTF8(text[:min(len(text), 64-len(hash))], "") + hash
}
