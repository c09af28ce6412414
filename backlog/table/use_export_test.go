package table

import (
	"context"
	"database/sql"
)

// InTx runs f in a transaction as those of settlements are.
func (t *Table) InTx(ctx context.Context, f func(*sql.Tx) error) error { return t.inTx(ctx, f) }

// FieldCode is fieldCode.
func FieldCode(err error) (int, bool) { return fieldCode(err) }

// LendMySQL returns a pool of connections that are borrowed from the other.
func LendMySQL(pool *sql.DB) *sql.DB { return (&lender{pool: pool, enter: mysqlEnter}).open() }
