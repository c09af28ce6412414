package cmd

import (
	"cmp"
	"encoding/json"
	"io"
	"log/slog"
	"os"
	"strings"

	"golang.org/x/term"

	"backlog/backlog"
	"backlog/backlog/causes"
	"backlog/backlog/config"
	"backlog/backlog/inspect"
	"backlog/backlog/logging"
	"backlog/backlog/logqueue"
	"backlog/backlog/watch"
)

type stamp = inspect.Stamp

// newLog returns a logger that writes to w, with the configured level and format.
func newLog(c config.Log, w io.Writer) *slog.Logger { return logging.NewLog(c.Level, c.Format, w) }

// printReport prints the report of the pass called name and, below it, the causes of failed records.
func printReport(w io.Writer, name string, r backlog.Report, asJSON bool, list []causes.Cause) error {
	if asJSON {
		return printJSON(w, watch.PassOf(r, list))
	}
	_, err := io.WriteString(w, inspect.ReportText(name, r)+"\n"+causes.Lines(list))
	return err
}

// printTable prints rows in columns. Tabs separate their cells.
func printTable(w io.Writer, rows []string) error {
	_, err := io.WriteString(w, inspect.Columns(rows))
	return err
}

// terminalOf returns the terminal that standard output writes to; false: it is none.
func terminalOf(w io.Writer) (*os.File, bool) {
	if after, ok := w.(logqueue.After); ok {
		w = after.W
	}
	f, ok := w.(*os.File)
	return f, ok && term.IsTerminal(int(f.Fd()))
}

// levels returns the characters of charts that the locale of the environment has.
func levels() inspect.Levels {
	locale := cmp.Or(os.Getenv("LC_ALL"), os.Getenv("LC_CTYPE"), os.Getenv("LANG"))
	encoding := strings.ReplaceAll(strings.ToUpper(locale), "-", "")
	if strings.Contains(encoding, "UTF8") {
		return inspect.Blocks
	}
	return inspect.Digits
}

// printJSON prints v on one line.
func printJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}
