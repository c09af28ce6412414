package cmd

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"backlog/backlog/table"
)

// Version is set when a release is built: -ldflags "-X backlog/cmd.Version=v1.2.3".
var Version string

func newVersion(g *globals) *cobra.Command {
	var asJSON jsonFlag
	c := &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Long:  `Version prints the program's version, its SQLite driver and the Go it was built with.` + exitStatusHelp,
		Args:  noArgs,
		RunE: ran(func(context.Context) error {
			if asJSON.on {
				return printJSON(g.out, map[string]string{"version": version(), "sqlite": table.SQLiteDriver, "go": runtime.Version(), "platform": runtime.GOOS + "/" + runtime.GOARCH})
			}
			g.printf("%s", versionText())
			return nil
		}),
	}
	asJSON.AddFlags(c.Flags())
	return c
}

func versionText() string {
	return fmt.Sprintf("backlog %s (SQLite by %s, %s, %s/%s)\n", version(), table.SQLiteDriver, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

func version() string {
	if Version != "" {
		return Version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}
