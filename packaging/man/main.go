// Command man writes the manual pages into the folder that is its argument. It is a program of its own
// so that cobra's generator does not become a part of backlog.
package main

import (
	"log"
	"os"

	"github.com/spf13/cobra/doc"

	"backlog/cmd"
)

func main() {
	if err := doc.GenManTree(cmd.ManualCommand(), &doc.GenManHeader{Source: "backlog", Manual: "Commands"}, os.Args[1]); err != nil {
		log.Fatal(err)
	}
}
