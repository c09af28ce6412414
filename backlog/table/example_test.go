//go:build !cgo_sqlite

package table_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"time"

	_ "modernc.org/sqlite"

	"backlog/backlog"
	"backlog/backlog/mapping"
	"backlog/backlog/table"
	"backlog/backlog/table/db"
	"backlog/backlog/table/sqlite"
	"backlog/backlog/table/work"
)

const shopTables = `CREATE TABLE orders (no INTEGER PRIMARY KEY, state TEXT NOT NULL, created_at TEXT NOT NULL, city TEXT,
		failures INTEGER, last_failure TEXT);
	INSERT INTO orders (no, state, created_at, city) VALUES
		(1, 'open', datetime('now', '-3 hours'), 'Delft'),
		(2, 'open', datetime('now', '-2 hours'), 'Atlantis'),
		(3, 'shipped', datetime('now', '-2 hours'), 'Utrecht'),
		(4, 'open', datetime('now', '-1 hours'), 'Ghent');
	CREATE TABLE jobs (id INTEGER PRIMARY KEY, queue TEXT, queued TEXT, done_at TEXT);
	INSERT INTO jobs (id, queue, queued) VALUES
		(1, 'mail', datetime('now', '-3 hours')),
		(2, 'fax', datetime('now', '-2 hours')),
		(3, 'mail', datetime('now', '-1 hours'));`

// shop returns a database with some orders, a pool of the program's own for it, and what
// removes it.
func shop(ctx context.Context) (opened *db.DB, pool *sql.DB, remove func()) {
	dir, err := os.MkdirTemp("", "shop")
	if err != nil {
		log.Fatal(err)
	}
	path := filepath.Join(dir, "shop.db")
	pool, err = sql.Open("sqlite", "file:"+path)
	if err != nil {
		log.Fatal(err)
	}
	if _, err := pool.Exec(shopTables); err != nil {
		log.Fatal(err)
	}
	opened, err = db.Open(ctx, sqlite.Dialect, "sqlite:"+path, db.Options{})
	if err != nil {
		log.Fatal(err)
	}
	return opened, pool, func() {
		opened.Close()
		pool.Close()
		os.RemoveAll(dir)
	}
}

// show prints the rows of a query that has two columns.
func show(pool *sql.DB, query string) {
	rows, err := pool.Query(query)
	if err != nil {
		log.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var a, b string
		if err := rows.Scan(&a, &b); err != nil {
			log.Fatal(err)
		}
		fmt.Println(a, b)
	}
}

// A table in a database that the program has opened already is worked off by a
// function.
func ExampleOpenDB() {
	ctx := context.Background()
	pool, err := sql.Open("sqlite", ":memory:") // any *sql.DB
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()
	pool.SetMaxOpenConns(1) // in memory, each connection would have its own
	if _, err := pool.Exec(shopTables); err != nil {
		log.Fatal(err)
	}

	orders, err := table.OpenDB(ctx, pool, sqlite.Dialect, mapping.Mapping{
		Name: "orders", ID: []string{"no"}, Status: "state", Inserted: mapping.Time{Column: "created_at"},
		New: mapping.Is("open"), Error: mapping.Is("failed"), Success: mapping.Is("shipped"),
	}, time.Now())
	if err != nil {
		log.Fatal(err)
	}
	engine := &backlog.Engine{
		Store: orders,
		Handler: backlog.HandlerFunc(func(ctx context.Context, r *backlog.Record) error {
			if city, _ := r.Column("city"); city == "Atlantis" {
				return errors.New("no such port")
			}
			return nil
		}),
	}
	report, err := engine.Pass(ctx, backlog.Pass{MaxAge: 7 * 24 * time.Hour})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(report.Succeeded, "shipped,", report.Failed, "failed")
	show(pool, "SELECT no, state FROM orders ORDER BY no")
	// Output:
	// 2 shipped, 1 failed
	// 1 shipped
	// 2 failed
	// 3 shipped
	// 4 shipped
}

// A table is worked off by a function.
func ExampleOpen() {
	ctx := context.Background()
	opened, pool, remove := shop(ctx)
	defer remove()

	orders, err := table.Open(ctx, opened, mapping.Mapping{
		Name: "orders", ID: []string{"no"}, Status: "state", Inserted: mapping.Time{Column: "created_at"},
		New: mapping.Is("open"), Error: mapping.Is("failed"), Success: mapping.Is("shipped"),
	}, time.Now())
	if err != nil {
		log.Fatal(err)
	}
	engine := &backlog.Engine{
		Store: orders,
		Handler: backlog.HandlerFunc(func(ctx context.Context, r *backlog.Record) error {
			if city, _ := r.Column("city"); city == "Atlantis" {
				return errors.New("no such port")
			}
			return nil
		}),
	}
	report, err := engine.Pass(ctx, backlog.Pass{MaxAge: 7 * 24 * time.Hour})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(report.Succeeded, "shipped,", report.Failed, "failed")
	show(pool, "SELECT no, state FROM orders ORDER BY no")
	// Output:
	// 2 shipped, 1 failed
	// 1 shipped
	// 2 failed
	// 3 shipped
	// 4 shipped
}

// A state need not be the value of a column: here a job is new as long as it
// has no time at which it was done, and one that fails stays so.
func ExampleMapping() {
	ctx := context.Background()
	opened, pool, remove := shop(ctx)
	defer remove()

	jobs, err := table.Open(ctx, opened, mapping.Mapping{
		Name:     "jobs",
		Inserted: mapping.Time{Column: "queued"},
		Where:    []mapping.Condition{{Column: "queue", Values: []mapping.Value{{Text: "mail"}}}},
		New:      mapping.State{When: []mapping.Condition{{Column: "done_at", Values: []mapping.Value{{Null: true}}}}},
		Success:  mapping.State{Set: []mapping.Assignment{{Column: "done_at", Value: mapping.Value{Text: "now"}}}},
		Error:    mapping.State{Keep: true},
	}, time.Now())
	if err != nil {
		log.Fatal(err)
	}
	engine := &backlog.Engine{Store: jobs, Handler: backlog.HandlerFunc(func(context.Context, *backlog.Record) error { return nil })}
	if _, err := engine.Pass(ctx, backlog.Pass{MaxAge: 24 * time.Hour}); err != nil {
		log.Fatal(err)
	}
	show(pool, "SELECT id, CASE WHEN done_at IS NULL THEN 'waits' ELSE 'is done' END FROM jobs ORDER BY id")
	// Output:
	// 1 is done
	// 2 waits
	// 3 is done
}

// A policy that counts failures keeps the count and the time of the last one in
// two columns of the row.
func ExampleOpen_policy() {
	ctx := context.Background()
	opened, pool, remove := shop(ctx)
	defer remove()

	policy := &backlog.Policy{ // retry.Policy returns those that are known by name
		Retries: 2,
		Wait: func(n int) (least, most time.Duration) {
			return 10 * time.Minute, 10 * time.Minute
		},
	}
	start := time.Now()
	now := start
	ship := func(_ context.Context, r *backlog.Record) error {
		if city, _ := r.Column("city"); city != "Atlantis" {
			return nil
		}
		fmt.Println("tried after", now.Sub(start))
		return errors.New("no such port")
	}

	orders, err := table.Open(ctx, opened, mapping.Mapping{
		Name: "orders", ID: []string{"no"}, Status: "state", Inserted: mapping.Time{Column: "created_at"},
		New: mapping.Is("open"), Error: mapping.Is("failed"), Success: mapping.Is("shipped"), Dead: mapping.Is("lost"),
		Policy: &mapping.PolicyColumns{Count: "failures", Last: "last_failure", Waits: policy.Waits(), Retries: policy.Retries},
	}, time.Now())
	if err != nil {
		log.Fatal(err)
	}
	engine := &backlog.Engine{Store: orders, Policy: policy, Handler: backlog.HandlerFunc(ship)}

	engine.Now = func() time.Time { return now }
	for range 12 { // ticks, five minutes apart
		if _, err := engine.Pass(ctx, backlog.Pass{MaxAge: 24 * time.Hour}); err != nil {
			log.Fatal(err)
		}
		now = now.Add(5 * time.Minute)
	}
	show(pool, "SELECT state, failures FROM orders WHERE city = 'Atlantis'")
	// Output:
	// tried after 0s
	// tried after 10m0s
	// tried after 20m0s
	// lost 3
}

// Work inside the database and its settlement are one transaction: a parcel for
// each order that is shipped, whatever crashes and when.
func ExampleTable_SettleWith() {
	ctx := context.Background()
	opened, pool, remove := shop(ctx)
	defer remove()
	if _, err := pool.Exec("CREATE TABLE parcels (parcel INTEGER PRIMARY KEY, city TEXT CHECK (city <> 'Atlantis'))"); err != nil {
		log.Fatal(err)
	}
	orders, err := table.Open(ctx, opened, mapping.Mapping{
		Name: "orders", ID: []string{"no"}, Status: "state", Inserted: mapping.Time{Column: "created_at"},
		New: mapping.Is("open"), Error: mapping.Is("failed"), Success: mapping.Is("shipped"),
	}, time.Now())
	if err != nil {
		log.Fatal(err)
	}
	handler, err := work.New(orders, []string{"INSERT INTO parcels (city) VALUES (:city)"}, false)
	if err != nil {
		log.Fatal(err)
	}
	engine := &backlog.Engine{Store: orders, Handler: handler}
	if _, err := engine.Pass(ctx, backlog.Pass{MaxAge: 24 * time.Hour}); err != nil {
		log.Fatal(err)
	}
	show(pool, "SELECT parcel, city FROM parcels ORDER BY parcel")
	show(pool, "SELECT no, state FROM orders ORDER BY no")
	// Output:
	// 1 Ghent
	// 2 Delft
	// 1 shipped
	// 2 failed
	// 3 shipped
	// 4 shipped
}
