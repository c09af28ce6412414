//go:build !windows

// Command backlog works off the pending records of a table that already
// exists, retrying the failed ones less and less often as they age.
package main

import (
	"os"
	"runtime/debug"
	_ "time/tzdata" // for machines without a zone database

	"backlog/cmd"
)

func main() {
	if os.Getenv("GOGC") == "" {
		// The heap has a few pages of records. To collect it every few megabytes would cost more
		// time than a larger heap costs memory.
		debug.SetGCPercent(400)
	}
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(96 << 20) // large records: collect more often beyond this
	}
	growStack(len(os.Args))
	os.Exit(cmd.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// growStack makes the stack as large as SQLite needs it, while there is almost nothing on it to copy.
// Otherwise it is copied several times on the way down, which takes a twentieth of the time of a `once`
// that finds nothing.
//
//go:noinline
func growStack(n int) byte {
	var room [48 << 10]byte
	return room[n]
}
