// Command minimal opens an SQLite database and selects 1, the least that a program like backlog does.
// The benchmark of cmd compares backlog with it.
package main

import (
	"database/sql"
	"fmt"
	"os"

	_ "modernc.org/sqlite"
)

func main() {
	db, err := sql.Open("sqlite", "file:"+os.Args[1])
	if err != nil {
		panic(err)
	}
	defer db.Close()
	var one int
	if err := db.QueryRow("SELECT 1 FROM sqlite_master LIMIT 1").Scan(&one); err != nil {
		panic(err)
	}
	fmt.Println(one)
}
