// Command man writes the manual pages to the folder of its argument. It is a
// program of its own, so that cobra's generator is not in backlog itself.
package main

import (
	"log"
	"os"

	"github.com/spf13/cobra/doc"

	"backlog/cmd"
)

func main() {
	if err := doc.GenManTree(cmd.Manual(), &doc.GenManHeader{Source: "backlog", Manual: "Commands"}, os.Args[1]); err != nil {
		log.Fatal(err)
	}
}
