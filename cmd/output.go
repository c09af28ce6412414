package cmd

import (
	"encoding/json"
	"io"
	"log/slog"

	"backlog/backlog"
	"backlog/backlog/causes"
	"backlog/backlog/config"
	"backlog/backlog/inspect"
	"backlog/backlog/logging"
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

// printJSON prints v on one line.
func printJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}
