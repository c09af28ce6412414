package table_test

import (
	"context"
	"errors"
	"time"

	"backlog/backlog/mapping"
	"backlog/backlog/table"
	"backlog/backlog/table/db"
	"backlog/backlog/table/doctor"
	"backlog/backlog/table/mysql"
	"backlog/backlog/table/postgres"
	"backlog/backlog/table/sqlite"
)

// dialects are those of the tests' URLs.
var dialects = []db.Server{sqlite.Dialect, postgres.Dialect, mysql.Dialect}

// openDB opens the database of the URL.
func openDB(ctx context.Context, url string, o table.Options) (*db.DB, error) {
	d, err := db.DialectOf(url, dialects...)
	if err != nil {
		return nil, err
	}
	return db.Open(ctx, d, url, o)
}

// missing is table.Missing for the database of the URL.
func missing(ctx context.Context, url string, m mapping.Mapping, now time.Time) ([]string, error) {
	d, err := db.DialectOf(url, dialects...)
	if err != nil {
		return nil, err
	}
	return doctor.Missing(ctx, d, url, doctor.Requirements{Mapping: m, CreateTable: true, Now: now})
}

// create is table.Create for the database of the URL.
func create(ctx context.Context, url string, steps []string) error {
	d, err := db.DialectOf(url, dialects...)
	if err != nil {
		return err
	}
	return doctor.Create(ctx, d, url, steps)
}

func isMissingFile(err error) bool { return errors.As(err, new(*db.MissingFile)) }
