package main

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"backlog/backlog/mapping"
	"backlog/backlog/table/db"
	"backlog/backlog/table/doctor"
	postgresql "backlog/backlog/table/postgres"
	sqlitefile "backlog/backlog/table/sqlite"
)

// A recordTable is the table that backlog and the bare loop drain: as `backlog init --create-table` makes
// it, with records a second apart, all of them new.
type recordTable struct {
	url     string // for backlog
	dialect db.Server
	mapping mapping.Mapping
	pool    *sql.DB // for the bare loop
	drop    func()
}

func newPostgresTable(ctx context.Context, n int) (*recordTable, error) {
	url, err := inSchema()
	if err != nil {
		return nil, err
	}
	drop, err := createSchema(ctx)
	if err != nil {
		return nil, err
	}
	pool, err := sql.Open("pgx", url)
	if err != nil {
		drop()
		return nil, err
	}
	t := &recordTable{url: url, dialect: postgresql.Dialect, pool: pool}
	t.drop = func() {
		pool.Close()
		drop()
	}
	fill := fmt.Sprintf(`INSERT INTO records (id, status, date_inserted)
		SELECT i, 'NEW', now() - (%d - i) * interval '1 s' FROM generate_series(1, %d) i`, n, n)
	if err := t.fill(ctx, fill); err != nil {
		t.drop()
		return nil, err
	}
	if err := settlePostgres(ctx, "records"); err != nil {
		t.drop()
		return nil, err
	}
	return t, nil
}

func newSQLiteTable(ctx context.Context, n int) (*recordTable, error) {
	path, drop, err := createSQLite()
	if err != nil {
		return nil, err
	}
	pool, err := openSQLite(path, 2)
	if err != nil {
		drop()
		return nil, err
	}
	t := &recordTable{url: "sqlite:" + path + "?synchronous=normal", dialect: sqlitefile.Dialect, pool: pool}
	t.drop = func() {
		pool.Close()
		drop()
	}
	fill := fmt.Sprintf(`WITH RECURSIVE s(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM s WHERE i < %d)
		INSERT INTO records (id, status, date_inserted)
		SELECT i, 'NEW', datetime('now', (i - %d) || ' seconds') FROM s`, n, n)
	if err := t.fill(ctx, fill); err != nil {
		t.drop()
		return nil, err
	}
	if err := settleSQLite(ctx, pool); err != nil {
		t.drop()
		return nil, err
	}
	return t, nil
}

// fill creates the table and its indexes, and inserts the records.
func (t *recordTable) fill(ctx context.Context, insert string) error {
	t.mapping = mapping.Mapping{Name: "records"}.WithDefaults()
	steps, err := doctor.Missing(ctx, t.dialect, t.url, doctor.Requirements{Mapping: t.mapping, CreateTable: true, Now: time.Now()})
	if err != nil {
		return err
	}
	if err := doctor.Create(ctx, t.dialect, t.url, steps); err != nil {
		return err
	}
	_, err = t.pool.ExecContext(ctx, insert)
	return err
}

// done returns how many records the table has as successful.
func (t *recordTable) done(ctx context.Context) (n int, err error) {
	err = t.pool.QueryRowContext(ctx, "SELECT count(*) FROM records WHERE status = 'SUCCESS'").Scan(&n)
	return n, err
}
