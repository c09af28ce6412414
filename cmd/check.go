package cmd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"backlog/backlog"
	"backlog/backlog/config"
	"backlog/backlog/table"
)

// CheckOptions are the flags of check.
type CheckOptions struct {
	SQL    bool
	Sample string // an ID, if the flag is given
	JSON   jsonFlag
	Now    nowFlag
}

func (o *CheckOptions) AddFlags(f *pflag.FlagSet) {
	f.BoolVar(&o.SQL, "sql", false, "print every statement that passes run")
	f.StringVar(&o.Sample, "sample", "", "call the handler, for real, with the record that has this `ID`")
	o.JSON.AddFlags(f)
	o.Now.AddFlags(f)
}

func newCheck(g *globals) *cobra.Command {
	var o CheckOptions
	var c *cobra.Command
	c = &cobra.Command{
		Use:   "check",
		Short: "Prove that a pass can work, touching nothing",
		Long: `Check goes through everything a pass needs: configuration, handler, connection,
columns, key, statuses, times, rights, indexes and plans, lock and state file.
For what is wrong it says what to do. It changes nothing.

With --sample ID it calls the handler with one record instead, for real: the
program runs, the service is called. It shows what the handler is given, what
comes back and what outcome that is. Nothing is settled: the row stays as it
was, and what is done in the database itself is undone. The record may have any
status; ID is as for explain:

    backlog check --sample 4
    backlog check --sample '["mail", 7]'` + exitStatusHelp + `
  75  --sample, and another process is working on this table

With --sample, 0 means that the handler was called, whatever the outcome.`,
		Args: noArgs,
		RunE: ran(func(ctx context.Context) error {
			switch sampling := c.Flags().Changed("sample"); {
			case sampling && o.SQL:
				return usagef("say one of --sample and --sql")
			case sampling:
				return runSample(ctx, o, g)
			}
			return runCheck(ctx, o, g)
		}),
	}
	o.AddFlags(c.Flags())
	return c
}

// A finding is the result of one check.
type finding struct {
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail"`
	Cure   string `json:"cure"`
	// Warning: the program works all the same, so that OK is true too.
	Warning bool `json:"warning"`
}

// errCheck says that the findings, already printed, are not all good.
var errCheck = errors.New("not everything is as it must be")

func runCheck(ctx context.Context, o CheckOptions, g *globals) error {
	_, now, err := o.Now.clock()
	if err != nil {
		return err
	}
	cfg, err := g.load()
	k := &checker{g: g, cfg: cfg, now: now}
	switch {
	case err != nil && o.JSON.on && !o.SQL:
		k.bad("config", err)
		return errors.Join(err, g.printChecks(false, k.findings))
	case err != nil:
		return err
	case o.SQL:
		return g.printSQL(ctx, cfg)
	}
	k.all(ctx)
	ok := true
	for _, f := range k.findings {
		ok = ok && f.OK
	}
	if o.JSON.on {
		err = g.printChecks(ok, k.findings)
	} else {
		g.printFindings(k.findings)
	}
	switch {
	case err != nil || ok:
		return err
	case k.misconfigured:
		return usageError{errCheck}
	}
	return errCheck
}

func (g *globals) printChecks(ok bool, list []finding) error {
	return printJSON(g.out, struct {
		OK     bool      `json:"ok"`
		Checks []finding `json:"checks"`
	}{ok, list})
}

func (g *globals) printFindings(list []finding) {
	for _, f := range list {
		mark := "ok   "
		if f.Warning {
			mark = "warn "
		} else if !f.OK {
			mark = "FAIL "
		}
		lines := each(strings.Split(f.Detail, "\n"), escaped)
		g.printf("%s %-11s %s\n", mark, f.Name, strings.Join(lines, "\n                  "))
		if f.Cure != "" {
			g.printf("                  cure: %s\n", escaped(f.Cure))
		}
	}
}

// A checker collects findings.
type checker struct {
	g        *globals
	cfg      *config.Config
	now      time.Time
	table    *table.Table
	findings []finding

	leftAlone     string // what statuses has found besides
	misconfigured bool   // the database's URL is none
}

func (k *checker) good(name, format string, args ...any) {
	k.findings = append(k.findings, finding{Name: name, OK: true, Detail: fmt.Sprintf(format, args...)})
}

func (k *checker) warn(name, cure, format string, args ...any) {
	k.findings = append(k.findings, finding{Name: name, OK: true, Warning: true, Detail: fmt.Sprintf(format, args...), Cure: cure})
}

// bad adds the error and reports whether there was one. What to do about it
// stands behind a semicolon where nothing else says it.
func (k *checker) bad(name string, err error) bool {
	if err == nil {
		return false
	}
	f := finding{Name: name}
	if errors.As(err, new(*table.URLError)) {
		k.misconfigured = true
	}
	if p := (*table.Problem)(nil); errors.As(err, &p) {
		f.Detail, f.Cure = strings.Replace(err.Error(), "; "+p.Cure, "", 1), p.Cure
	} else if f.Detail = err.Error(); !strings.Contains(f.Detail, "\n") {
		f.Detail, f.Cure, _ = strings.Cut(f.Detail, "; ")
	}
	f.Detail = strings.TrimPrefix(f.Detail, name+": ") // it stands there already
	k.findings = append(k.findings, f)
	return true
}

func (k *checker) all(ctx context.Context) {
	k.good("config", "%s: %s, table %s, %s", k.g.Config, plural(len(k.cfg.Tiers.Tiers()), "tier"), k.cfg.Table.Name, table.Shown(k.cfg.Database))
	h, err := newHandler(ctx, k.cfg, nil)
	k.tool(ctx, "handler", h, err, proof(k.cfg.Handler.Exec, k.cfg.Handler.Lines, k.cfg.Handler.HTTP))
	onDead, err := newOnDead(ctx, k.cfg)
	k.tool(ctx, "on_dead", onDead, err, proof(k.cfg.OnDead.Exec, nil, k.cfg.OnDead.HTTP))
	k.state()
	k.tiers()
	k.policy()

	// A first look that needs no right to write, so that a missing one is
	// a finding of its own and not the end.
	db, err := table.Open(ctx, k.cfg.Database, table.Options{ReadOnly: true})
	if k.bad("database", err) {
		return
	}
	defer db.Close()
	k.good("database", "%s is there and can be read (driver %s)", table.Shown(k.cfg.Database), db.Driver())
	k.table, err = table.New(ctx, db, mapping(k.cfg))
	if k.bad("table", err) {
		return
	}
	k.good("table", "%s has the columns named, and its key is unique", k.cfg.Table.Name)
	k.bad("handler", hasColumns(k.table, "handler", h))
	k.bad("on_dead", hasColumns(k.table, "on_dead", onDead))
	k.programs()
	k.work(ctx)
	if !k.bad("times", k.table.ProveTimes(ctx, k.now)) {
		k.times(ctx)
		k.plans(ctx)
		k.counts(ctx)
	}
	k.writes(ctx)
	k.notes(k.table)
	if !hasDead(k.cfg) {
		k.good("note", noDead)
	}
}

// notes adds what the table has to say that has not been said.
func (k *checker) notes(t *table.Table) {
	for _, n := range t.Notes() {
		if !slices.ContainsFunc(k.findings, func(f finding) bool { return f.Name == "note" && f.Detail == n }) {
			k.warn("note", "", "%s", n)
		}
	}
}

// work is tool for a handler that works in the table's database.
func (k *checker) work(ctx context.Context) {
	if k.cfg.Handler.SQL == nil {
		return
	}
	w, err := newWork(ctx, k.table, k.cfg)
	if k.bad("handler", err) {
		return
	}
	n, parameters := w.Steps()
	detail := plural(n, "statement") + " understood by the database"
	if len(parameters) > 0 {
		detail += "; parameters: " + strings.Join(parameters, ", ")
	}
	k.good("handler", "%s", detail)
}

func (k *checker) times(ctx context.Context) {
	detail := strings.Join(k.table.TimeForms(), "\n")
	samples, err := k.table.Samples(ctx, k.now)
	if k.bad("times", err) {
		return
	}
	for _, s := range samples {
		detail += "\n" + s
	}
	k.good("times", "%s", detail)
}

// plans finds missing indexes.
func (k *checker) plans(ctx context.Context) {
	plans, err := k.table.Plans(ctx, k.now)
	if k.bad("index", err) {
		return
	}
	for i, p := range plans {
		names := strings.Join(p.Indexes, " and ")
		switch {
		case p.Bad != "":
			cure := p.Cure
			if !p.Stale {
				cure = "`backlog init`, or: " + cure
			}
			k.warn("index", cure, "%s: %s\nby this plan: %s", p.What, p.Bad, strings.Join(p.Steps, "; "))
		case names == "": // the key itself
			k.good("index", "%s: %s", p.What, strings.Join(p.Steps, "; "))
		case p.Unused:
			k.good("index", "%s: to be served by the index %s; the planner takes the rows for so few that it reads them in another way, until ANALYZE tells it of more", p.What, names)
		case i > 0 && p.What == plans[i-1].What && plans[i-1].Bad == "" && !plans[i-1].Unused:
			k.findings[len(k.findings)-1].Detail += " and " + names
		default:
			k.good("index", "%s: served by the index %s", p.What, names)
		}
	}
}

// writes proves the rights and the statuses on a connection that may write.
func (k *checker) writes(ctx context.Context) {
	db, err := table.Open(ctx, k.cfg.Database, table.Options{})
	if k.bad("rights", err) {
		return
	}
	defer db.Close()
	if k.bad("rights", db.ProveRights(ctx)) {
		return
	}
	t, err := table.New(ctx, db, mapping(k.cfg))
	if k.bad("table", err) {
		return
	}
	defer k.notes(t)
	if k.bad("statuses", t.ProveWrites(ctx, k.now)) {
		return
	}
	k.good("rights", "the database can be written to")
	k.good("statuses", "the table takes what is set%s", k.leftAlone)
	if ahead, err := db.Skew(ctx, time.Now); !k.bad("clock", err) && ahead.Abs() > table.MostSkew {
		k.warn("clock", "set both by the same time servers (NTP)", "%s", apart(ahead))
	}
	if advice := db.Advice(ctx); advice != "" {
		cure := adviceCure(k.cfg.Database, advice)
		if cure == "" {
			advice, cure, _ = strings.Cut(advice, "; ")
		}
		k.warn("database", cure, "%s", advice)
	}
	lock, err := t.TryLock(ctx, backlog.RunLock)
	switch {
	case errors.Is(err, backlog.ErrLocked):
		k.good("lock", "another process is working on this table just now")
	case !k.bad("lock", err):
		lock.Unlock()
		k.good("lock", "the table can be locked")
	}
}

// printSQL prints the GRANTs also where rights are just what is missing to find
// out the statements.
func (g *globals) printSQL(ctx context.Context, cfg *config.Config) error {
	a, err := g.wireTable(ctx, cfg, newLog(cfg.Log, g.err), table.Options{ReadOnly: true})
	if err != nil {
		return err
	}
	defer a.close()
	unproved := a.table.ProveTimes(ctx, time.Now())
	if unproved == nil {
		for _, s := range a.table.Statements() {
			g.printf("%s;\n", s)
		}
	}
	grants, err := a.table.Grants(ctx)
	if err != nil {
		return err
	}
	for _, s := range grants {
		g.printf("%s;\n", s)
	}
	if cfg.Handler.SQL != nil {
		for _, s := range cfg.Handler.SQL.Statements {
			g.printf("%s\n", ended(s))
		}
	}
	if unproved != nil {
		return fmt.Errorf("table %s: %w", cfg.Table.Name, unproved)
	}
	return nil
}

// ended returns SQL with a semicolon at its end.
func ended(text string) string {
	text = strings.TrimRightFunc(text, unicode.IsSpace)
	switch last := text[strings.LastIndexByte(text, '\n')+1:]; {
	case strings.Contains(last, "--"): // a comment would swallow it
		return text + "\n;"
	case strings.HasSuffix(text, ";"):
		return text
	}
	return text + ";"
}

// adviceCure says how the advice about a database is followed, where it does not
// say so itself.
func adviceCure(url, advice string) string {
	scheme, path, _ := strings.Cut(url, ":")
	if !strings.HasPrefix(strings.ToLower(scheme), "sqlite") || !strings.Contains(advice, "journal mode") {
		return ""
	}
	if path, _, _ = strings.Cut(strings.TrimPrefix(path, "//"), "?"); !isPlain(path) {
		path = "FILE"
	}
	return "sqlite3 " + path + " 'PRAGMA journal_mode = WAL'"
}
