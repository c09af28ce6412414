package main

import (
	"context"
	"time"

	"backlog/backlog"
	"backlog/backlog/table"
	"backlog/backlog/table/db"
)

// oursConcurrency is how many handlers run at a time, as in the benchmarks. For handlers that do nothing
// 1 is slower, and with 16 and 64 it drains about as many.
const oursConcurrency = 4

func drainOursPostgres(ctx context.Context, n int) (run, error) {
	t, err := newPostgresTable(ctx, n)
	if err != nil {
		return run{}, err
	}
	defer t.drop()
	return drainOurTable(ctx, t, n, func(r *run, opened *db.DB) error {
		return r.readPostgres(opened.Write.QueryRowContext(ctx, postgresSettings))
	})
}

func drainOursSQLite(ctx context.Context, n int) (run, error) {
	t, err := newSQLiteTable(ctx, n)
	if err != nil {
		return run{}, err
	}
	defer t.drop()
	return drainOurTable(ctx, t, n, func(r *run, opened *db.DB) error {
		return r.readSQLite(ctx, opened.Write)
	})
}

// drainOurTable opens the table, reads the settings of its database, and drains it.
func drainOurTable(ctx context.Context, t *recordTable, n int, readSettings func(*run, *db.DB) error) (run, error) {
	opened, err := db.Open(ctx, t.dialect, t.url, db.Options{})
	if err != nil {
		return run{}, err
	}
	defer opened.Close()
	var r run
	if err := readSettings(&r, opened); err != nil {
		return run{}, err
	}
	r.took, err = drainOurs(ctx, t, opened, n)
	return r, err
}

// drainOurs runs one pass over all records.
func drainOurs(ctx context.Context, t *recordTable, opened *db.DB, n int) (time.Duration, error) {
	records, err := table.Open(ctx, opened, t.mapping, time.Now())
	if err != nil {
		return 0, err
	}
	handled := newTally(n)
	engine := &backlog.Engine{
		Store:       records,
		Concurrency: oursConcurrency,
		Handler: backlog.HandlerFunc(func(_ context.Context, r *backlog.Record) error {
			return handled.handleText(r.Key.String())
		}),
	}
	start := time.Now()
	_, err = engine.Pass(ctx, backlog.Pass{Tier: "all", MaxAge: 365 * 24 * time.Hour})
	took := time.Since(start)
	if err != nil {
		return 0, err
	}
	done, err := t.done(ctx)
	if err != nil {
		return 0, err
	}
	return took, handled.check(done)
}
