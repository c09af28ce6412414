package cmd

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"backlog/backlog"
	"backlog/backlog/table"
)

// Exit statuses.
const (
	exitDone   = 0
	exitFailed = 1
	exitUsage  = 2
	exitStrict = 3
	exitLocked = 75 // EX_TEMPFAIL
)

// exitStatusHelp ends the help of every command; exitStatusPassHelp follows it for once.
const (
	exitStatusHelp = `
EXIT STATUS
  0   done; failed records are normal
  1   could not do it
  2   wrong usage or configuration
`
	exitStatusPassHelp = `  3   --strict, and some record failed
  75  another process is working on this table
`
)

// usageError is a mistake in how the program was called.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// quietError is an error that has been logged and is not printed again.
type quietError struct{ error }

func (e quietError) Unwrap() error { return e.error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// errStrict is the error of --strict: some record failed.
var errStrict = errors.New("some records failed")

// exitStatus maps an error to the status of the process.
func exitStatus(err error) int {
	switch {
	case err == nil:
		return exitDone
	case errors.As(err, new(usageError)), errors.As(err, new(*table.KeyError)), errors.As(err, new(*urlError)):
		return exitUsage // an ID is an argument, and so may be the database's URL
	case errors.Is(err, errStrict):
		return exitStrict
	case errors.Is(err, backlog.ErrLocked):
		return exitLocked
	}
	return exitFailed
}

// complain prints the error as the last thing the program says.
func complain(w io.Writer, err error) {
	prefix := "backlog: "
	for line := range strings.SplitSeq(err.Error(), "\n") {
		fmt.Fprintln(w, prefix+escaped(line))
		prefix = "  "
	}
}
