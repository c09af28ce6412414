// Command demo fills the table BACKLOG of an SQLite database with a sample
// backlog of mixed ages, for make demo.
package main

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"time"

	_ "modernc.org/sqlite"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: demo DATABASE")
		os.Exit(2)
	}
	if err := fill(context.Background(), os.Args[1], time.Now()); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

// fill adds orders from a few minutes to over a year old. Every seventh goes
// to an address that does not exist.
func fill(ctx context.Context, path string, now time.Time) error {
	db, err := sql.Open("sqlite", path)
	if err != nil {
		return err
	}
	defer db.Close()
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	age := 3 * time.Minute
	for i := 1; i <= 60; i++ {
		city := "Springfield"
		if i%7 == 0 {
			city = "Nowhere"
		}
		status := "NEW"
		if i%10 == 0 {
			status = "SUCCESS" // somebody else's work
		}
		_, err := tx.ExecContext(ctx, "INSERT INTO BACKLOG (status, date_inserted, payload) VALUES (?, ?, ?)",
			status, now.Add(-age).UTC().Format(time.DateTime), fmt.Sprintf(`{"order": %d, "city": %q}`, 1000+i, city))
		if err != nil {
			return err
		}
		age = age * 124 / 100
	}
	return tx.Commit()
}
