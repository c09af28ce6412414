package cmd

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"backlog/backlog"
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
    backlog explain '["mail", 7]'` + idHelp + exitStatusHelp,
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
	c.SetFlagErrorFunc(idFlagError)
	return c
}

// idHelp ends the help of commands that take IDs.
const idHelp = `

An ID that begins with a dash stands behind --, and after all flags.`

// idFlagError is flagError for commands that take IDs, which may be negative.
func idFlagError(c *cobra.Command, err error) error {
	e := (*pflag.NotExistError)(nil)
	if errors.As(err, &e) {
		if short := e.GetSpecifiedShortnames(); short != "" && strings.Trim(short, "0123456789") == "" {
			return fmt.Errorf("unknown flag: -%s; an ID that begins with a dash stands behind --, as in: %s -- -%[1]s", short, c.CommandPath())
		}
	}
	return flagError(c, err)
}

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
	cfg := a.cfg
	row, err := a.find(ctx, id, now)
	if err != nil {
		return err
	}
	if p := refreshOf(cfg); p != nil && row.Refresh != nil {
		return g.explainRefresh(p, cfg, row, o.JSON, now)
	}
	x := inspect.Explain(row, cfg.Tiers, policyOf(cfg), now)
	keeps := retryOf(cfg) != nil
	if row.NoStatus {
		row.Status = "NULL" // as status has it
	}
	if o.JSON {
		return printJSON(g.out, explanationOf(row, x, keeps, now))
	}
	unless := ""
	if cfg.MaxRecords > 0 {
		unless = fmt.Sprintf(", or a later one if others fill its %d (max_records)", cfg.MaxRecords)
	}
	return g.printExplanation(row, x, keeps, now, unless)
}

// explanationOf returns what explain prints of the row, with its failures where the
// policy keeps them in the row.
func explanationOf(row inspect.Row, x inspect.Explanation, keeps bool, now time.Time) explainJSON {
	e := explainJSON{
		ID: row.Key, Status: row.Status, Inserted: stamp(row.Inserted),
		Due: x.Due, Reason: x.Reason, Next: stamp(x.Next),
		State: row.State.String(), Eligible: stamp(row.Eligible), Expires: stamp(row.Expires),
	}
	// An infinite date has no age: it is further away than a duration can be long.
	if age := now.Sub(row.Inserted); !row.Inserted.IsZero() && row.Inserted.Add(age).Equal(now) {
		seconds := age.Seconds()
		e.Age = &seconds
	}
	if x.Tier != "" {
		e.Tier = &x.Tier
	}
	if keeps {
		e.Failures, e.LastFailure, e.Planned = &row.Failures.Count, stamp(row.Failures.Last), stamp(row.Failures.Next)
	}
	return e
}

func (g *globals) printExplanation(row inspect.Row, x inspect.Explanation, keeps bool, now time.Time, unless string) error {
	w := tabwriter.NewWriter(g.out, 0, 0, 2, ' ', 0)
	line := func(what, format string, args ...any) { fmt.Fprintf(w, what+"\t"+format+"\n", args...) }
	line("record", "%s", shown(row.Key.String()))
	line("status", "%s", statusText(row))
	if row.Inserted.IsZero() {
		line("inserted", "-")
	} else {
		line("inserted", "%s, %s", exactly(row.Inserted), fromNow(row.Inserted, now))
	}
	if keeps {
		line("failures", "%d", row.Failures.Count)
	}
	for _, t := range []struct {
		what string
		at   time.Time
	}{{"last failure", row.Failures.Last}, {"planned for", row.Failures.Next}, {"eligible", row.Eligible}, {"expires", row.Expires}} {
		if !t.at.IsZero() {
			line(t.what, "%s, %s", exactly(t.at), fromNow(t.at, now))
		}
	}
	line("due", "%s: %s", map[bool]string{true: "yes", false: "no"}[x.Due], escaped(x.Reason))
	if x.Next.IsZero() {
		line("next attempt", "none")
	} else {
		line("next attempt", "%s, %s, by the tier %s%s", exactly(x.Next), fromNow(x.Next, now), shown(x.Tier), unless)
	}
	return w.Flush()
}

// statusText returns the row's status and, where that is another word, its state.
func statusText(row inspect.Row) string {
	if state := row.State.String(); row.Status != state {
		return fmt.Sprintf("%s (%s)", shown(row.Status), state)
	}
	return row.Status
}

// exactly returns a time as people read it, to the millisecond.
func exactly(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05.999 MST") }

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
