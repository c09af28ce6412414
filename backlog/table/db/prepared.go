package db

import (
	"context"
	"database/sql"
)

// A preparedKey names a prepared statement: where it is prepared, and its text.
type preparedKey struct {
	pool *sql.DB
	text string
}

// PrepareWrite prepares a statement that is run repeatedly on the pool for writing, and keeps it: tables that are
// opened on the same database one after the other, as by reloads, share it. It must have the placeholders of the
// database. PrepareWrite may wait for a connection.
func (db *DB) PrepareWrite(ctx context.Context, text string) error {
	return db.prepare(ctx, db.Write, text)
}

// prepare prepares a statement on the pool, unless that is done already, or the driver does that itself or must
// not do it.
func (db *DB) prepare(ctx context.Context, pool *sql.DB, text string) error {
	if !db.Text().Prepares || db.preparedOn(pool, text) != nil {
		return nil
	}
	stmt, err := pool.PrepareContext(ctx, text)
	if err != nil {
		return err
	}
	if _, raced := db.prepared.LoadOrStore(preparedKey{pool, text}, stmt); raced {
		stmt.Close()
	}
	return nil
}

// preparedOn returns a prepared statement, or nil.
func (db *DB) preparedOn(pool *sql.DB, text string) *sql.Stmt {
	stmt, _ := db.prepared.Load(preparedKey{pool, text})
	s, _ := stmt.(*sql.Stmt)
	return s
}

// QueryPrepared prepares the statement and runs it on the pool for reading.
func (db *DB) QueryPrepared(ctx context.Context, text string, args []any) (*sql.Rows, error) {
	if err := db.prepare(ctx, db.Read, text); err != nil {
		return nil, err
	}
	if stmt := db.preparedOn(db.Read, text); stmt != nil {
		return stmt.QueryContext(ctx, args...)
	}
	return db.Read.QueryContext(ctx, text, args...)
}

// QueryRowIn runs the statement in a transaction. It uses the prepared statement if there is one.
func (db *DB) QueryRowIn(ctx context.Context, tx *sql.Tx, text string, args []any) *sql.Row {
	if stmt := db.preparedOn(db.Write, text); stmt != nil {
		return tx.StmtContext(ctx, stmt).QueryRowContext(ctx, args...)
	}
	return tx.QueryRowContext(ctx, text, args...)
}

// ExecIn runs the statement in a transaction and returns how many rows it affected. It uses the prepared
// statement if there is one.
func (db *DB) ExecIn(ctx context.Context, tx *sql.Tx, text string, args []any) (int64, error) {
	if stmt := db.preparedOn(db.Write, text); stmt != nil {
		return Affected(tx.StmtContext(ctx, stmt).ExecContext(ctx, args...))
	}
	return Affected(tx.ExecContext(ctx, text, args...))
}
