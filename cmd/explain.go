package cmd

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"backlog/backlog"
	"backlog/backlog/config"
	"backlog/backlog/inspect"
	"backlog/backlog/table"
)

func newExplain(g *globals) *cobra.Command {
	var o dataFlags
	c := &cobra.Command{
		Use:   "explain ID",
		Short: "Say of one record whether it is due, why, and when it will next be tried",
		Long: `Explain shows what the row of one record holds, whether a pass would take it now
and why, and the tick at which it will next be tried if nothing changes. It only
reads the table.

ID is the record's key as other commands show it; a composite key is a JSON
array, in quotes:

    backlog explain 4
    backlog explain '["mail", 7]'` + idHelp,
		Args: func(_ *cobra.Command, args []string) error {
			switch len(args) {
			case 0:
				return errors.New("say which record, as in: backlog explain 4")
			case 1:
				return nil
			}
			return errors.New("explain takes one ID; a key of several columns is one JSON array in quotes, as in: backlog explain '[\"mail\", 7]'")
		},
		RunE: func(c *cobra.Command, args []string) error { return runExplain(c.Context(), args[0], o, g) },
	}
	o.AddFlags(c.Flags())
	return c
}

// idHelp ends the help of commands that take IDs.
const idHelp = `

An ID that begins with a dash stands behind --, and after all flags.`

// explainJSON is what explain prints. A value that the record does not have is null.
type explainJSON struct {
	ID       backlog.Key `json:"id"`
	Status   string      `json:"status"`
	Inserted stamp       `json:"inserted"`
	Age      *float64    `json:"age_seconds"`
	Due      bool        `json:"due"`
	Reason   string      `json:"reason"`
	Next     stamp       `json:"next"`
	Tier     *string     `json:"tier"`

	State string `json:"state"` // new, error, success, dead or other
	// What the row remembers, where a policy keeps something there.
	Failures    *int  `json:"failures"`
	LastFailure stamp `json:"last_failure"`
	Planned     stamp `json:"planned"`

	Eligible stamp `json:"eligible"`
	Expires  stamp `json:"expires"`

	*refreshJSON // of the refresh policy alone
}

func runExplain(ctx context.Context, id string, o dataFlags, g *globals) error {
	a, now, err := g.open(ctx, o, table.Options{ReadOnly: true})
	if err != nil {
		return err
	}
	defer a.close()
	row, err := a.find(ctx, id, now)
	if err != nil {
		return err
	}
	s := sheet{now: now}
	s.line("record", shown(row.Key.String()))
	var e explainJSON
	if p := refreshOf(a.cfg); p != nil && row.Refresh != nil {
		e = s.refresh(p, a.cfg, row)
	} else {
		e = s.row(a.cfg, row)
	}
	if o.JSON {
		return printJSON(g.out, e)
	}
	return printTable(g.out, s.lines)
}

// explanationOf returns what explain prints of any row.
func explanationOf(row inspect.Row, x inspect.Explanation, now time.Time) explainJSON {
	e := explainJSON{
		ID: row.Key, Status: row.Status, Inserted: stamp(row.Inserted),
		Due: x.Due, Reason: x.Reason, Next: stamp(x.Next), Tier: textOrNull(x.Tier),
		State: row.State.String(), Eligible: stamp(row.Eligible), Expires: stamp(row.Expires),
	}
	// An infinite date has no age: it is further away than a duration can be long.
	if age := now.Sub(row.Inserted); !row.Inserted.IsZero() && row.Inserted.Add(age).Equal(now) {
		seconds := age.Seconds()
		e.Age = &seconds
	}
	return e
}

// A sheet is what is known of one record, a line each.
type sheet struct {
	now   time.Time
	lines []string
}

// line adds what is known; there may be nothing.
func (s *sheet) line(what, text string) {
	if text != "" {
		s.lines = append(s.lines, what+"\t"+text)
	}
}

func (s *sheet) moment(what string, t time.Time) {
	if !t.IsZero() {
		s.line(what, inspect.Exactly(t)+", "+fromNow(t, s.now))
	}
}

// explain adds whether the record is due and when it is tried next.
func (s *sheet) explain(x inspect.Explanation, unless string) {
	due, next := "no: ", "none"
	if x.Due {
		due = "yes: "
	}
	s.line("due", due+escaped(x.Reason))
	if !x.Next.IsZero() {
		next = fmt.Sprintf("%s, %s, by the tier %s%s", inspect.Exactly(x.Next), fromNow(x.Next, s.now), shown(x.Tier), unless)
	}
	s.line("next attempt", next)
}

// row adds what is known of a row that is handled until it succeeds.
func (s *sheet) row(cfg *config.Config, row inspect.Row) explainJSON {
	x := inspect.Explain(row, cfg.Tiers, policyOf(cfg), s.now)
	if row.NoStatus {
		row.Status = "NULL" // as status has it
	}
	e := explanationOf(row, x, s.now)
	s.line("status", statusText(row))
	if s.moment("inserted", row.Inserted); row.Inserted.IsZero() {
		s.line("inserted", "-")
	}
	if retryOf(cfg) != nil {
		e.Failures, e.LastFailure, e.Planned = &row.Failures.Count, stamp(row.Failures.Last), stamp(row.Failures.Next)
		s.line("failures", strconv.Itoa(row.Failures.Count))
	}
	s.moment("last failure", row.Failures.Last)
	s.moment("planned for", row.Failures.Next)
	s.moment("eligible", row.Eligible)
	s.moment("expires", row.Expires)
	unless := ""
	if cfg.MaxRecords > 0 {
		unless = fmt.Sprintf(", or a later one if others fill its %d (max_records)", cfg.MaxRecords)
	}
	s.explain(x, unless)
	return e
}

// statusText returns the row's status and, where that is another word, its state.
func statusText(row inspect.Row) string {
	if state := row.State.String(); row.Status != state {
		return fmt.Sprintf("%s (%s)", shown(row.Status), state)
	}
	return row.Status
}

// endless is nearly as long as a duration can be; beyond it only that is said.
const endless = 290 * 365 * 24 * time.Hour

// fromNow says how far away a time is.
func fromNow(t, now time.Time) string {
	switch d := t.Sub(now).Round(time.Second); {
	case d >= endless:
		return "in more than 290 years"
	case d <= -endless:
		return "more than 290 years ago"
	case d > 0:
		return "in " + shortly(d)
	case d < 0:
		return shortly(-d) + " ago"
	}
	return "now"
}
