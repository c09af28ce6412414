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
		// The heap is a few pages of records: collecting it at every few
		// megabytes costs more than letting it grow to some more.
		debug.SetGCPercent(400)
	}
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(96 << 20) // unless records are large
	}
	deepen(len(os.Args))
	os.Exit(cmd.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// deepen makes the stack as large as SQLite needs it while next to nothing is on it. Else it
// is copied again and again on the way down, which is a twentieth of a once that finds nothing.
//
//go:noinline
func deepen(n int) byte {
	var room [48 << 10]byte
	return room[n]
}
