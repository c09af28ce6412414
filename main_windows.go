// Command backlog does not run on Windows: it ends handlers by signals to process
// groups, and reloads on SIGHUP.
package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "backlog: this program does not run on Windows; use it under WSL, or in a container")
	os.Exit(1)
}
