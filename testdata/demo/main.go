// Command demo fills the table BACKLOG of an SQLite database with a sample
// backlog of mixed ages, for make demo.
package main

import (
	"database/sql"
	"fmt"
	"os"

	_ "modernc.org/sqlite"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: demo DATABASE")
		os.Exit(2)
	}
	db, err := sql.Open("sqlite", os.Args[1])
	if err == nil {
		_, err = db.Exec(fill)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

// fill adds orders from a few minutes to more than a year old, each a quarter older than the one
// before. Every seventh goes to a city that does not exist, and every tenth is done already.
const fill = `WITH RECURSIVE orders (i, age) AS (SELECT 1, 180 UNION ALL SELECT i + 1, age * 1.24 FROM orders WHERE i < 60)
	INSERT INTO BACKLOG (status, date_inserted, payload)
	SELECT iif(i % 10, 'NEW', 'SUCCESS'), datetime('now', -CAST(age AS INTEGER) || ' seconds'),
		json_object('order', 1000 + i, 'city', iif(i % 7, 'Springfield', 'Nowhere')) FROM orders`
