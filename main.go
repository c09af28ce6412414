// Command backlog works off the pending records of a table that already
// exists, retrying the failed ones less and less often as they age.
package main

import (
	"os"
	_ "time/tzdata" // for machines without a zone database

	"backlog/cmd"
)

func main() { os.Exit(cmd.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }
