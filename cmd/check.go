package cmd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"backlog/backlog"
	"backlog/backlog/config"
	"backlog/backlog/inspect"
	"backlog/backlog/table"
	"backlog/backlog/table/doctor"
)

// CheckOptions are the flags of check.
type CheckOptions struct {
	dataFlags
	SQL     bool
	Sample  string // an ID, if the flag is given
	NoWrite bool
}

func newCheck(g *globalOptions) *cobra.Command {
	var o CheckOptions
	c := &cobra.Command{
		Use:   "check",
		Short: "Check that a pass can work, without changing anything",
		Annotations: map[string]string{
			"0":  "nothing is wrong; --sample: the handler was called, whatever the outcome",
			"1":  "something is wrong, or the handler could not be called",
			"75": "--sample, and another process is working on this table",
		},
		RunE: func(c *cobra.Command, _ []string) error {
			if !c.Flags().Changed("sample") {
				return runCheck(c.Context(), o, g)
			}
			if o.SQL {
				return usagef("say one of --sample and --sql")
			}
			return runSample(c.Context(), o, g)
		},
	}
	f := c.Flags()
	f.BoolVar(&o.SQL, "sql", false, "print every statement that passes run")
	f.StringVar(&o.Sample, "sample", "", "call the handler, for real, with the record that has this `ID`")
	f.BoolVar(&o.NoWrite, "no-write", false, "leave out the writes to rows that are rolled back")
	o.dataFlags.AddFlags(f)
	return c
}

// errCheck says that the findings, already printed, are not all good.
var errCheck = errors.New("not everything is as it must be")

func runCheck(ctx context.Context, o CheckOptions, g *globalOptions) error {
	_, now := o.clock()
	cfg, err := g.loadAny()
	k := &checker{g: g, cfg: cfg, now: now, noWrite: o.NoWrite}
	switch {
	case err != nil && o.JSON && !o.SQL:
		k.bad("config", err)
		return errors.Join(err, g.printChecks(false, k.Findings, config.Policy{}))
	case err != nil:
		return err
	case o.SQL:
		return g.printSQL(ctx, cfg)
	case sourceOf(cfg) != nil:
		k.source(ctx, sourceOf(cfg))
	default:
		k.all(ctx)
	}
	ok := !slices.ContainsFunc(k.Findings, func(f inspect.Finding) bool { return !f.OK })
	if o.JSON {
		err = g.printChecks(ok, k.Findings, cfg.Policy)
	} else {
		g.printf("%s", k.Findings.Text())
	}
	switch {
	case err != nil || ok:
		return err
	case k.misconfigured:
		return usageError{errCheck}
	}
	return errCheck
}

// printChecks prints the findings and, with the policy refresh, how its settings are
// understood, which may be sentences.
func (g *globalOptions) printChecks(ok bool, list []inspect.Finding, p config.Policy) error {
	settings, _ := p.Settings.(*refreshSettings)
	return printJSON(g.out, struct {
		OK     bool              `json:"ok"`
		Checks []inspect.Finding `json:"checks"`
		Policy *refreshSettings  `json:"policy,omitempty"`
	}{ok, list, settings})
}

// A checker collects findings.
type checker struct {
	inspect.Findings
	g       *globalOptions
	cfg     *config.Config
	now     time.Time
	table   *table.Table
	written *table.DB // that may be written to; nil: not opened

	noWrite       bool
	misconfigured bool // the database's URL is none
}

// bad is [doctor.Bad], and notes that the database's URL is none.
func (k *checker) bad(name string, err error) bool {
	k.misconfigured = k.misconfigured || errors.As(err, new(*urlError))
	return doctor.AddFailure(&k.Findings, name, err)
}

func (k *checker) all(ctx context.Context) {
	k.AddGood("config", "%s: %s, table %s, %s", k.g.Config, inspect.Plural(len(k.cfg.Tiers.Tiers()), "tier"), k.cfg.Table.Name, shownURL(k.cfg.Database))
	h, onDead := k.handlers(ctx)
	k.state()
	if at, err := k.g.checkPages(k.cfg); at != "" && !k.bad("web", err) {
		k.AddGood("web", "pages at %s", at)
	}
	k.CheckTiers(k.cfg.Tiers)
	if p := refreshOf(k.cfg); p != nil {
		p.CheckSchedule(&k.Findings, k.cfg.Tiers, k.now)
	} else if p := policyOf(k.cfg.Policy); p != nil {
		k.CheckPolicy(p, k.cfg.Tiers)
	}

	// The first connection needs no right to write: a missing right is then a
	// finding like others, not the end.
	db, err := openDatabase(ctx, k.cfg.Database, table.Options{ReadOnly: true})
	if k.bad("database", err) {
		return
	}
	defer db.Close()
	k.AddGood("database", "%s is there and can be read (driver %s)", shownURL(k.cfg.Database), db.Text().Driver)
	k.table, err = table.New(ctx, db, mappingOf(k.cfg))
	if k.bad("table", err) {
		return
	}
	k.AddGood("table", "%s has the columns named, and its key is unique", k.cfg.Table.Name)
	k.rivals(ctx)
	k.bad("handler", hasColumns(k.table.Given(), "handler."+k.cfg.Handler.Kind, h))
	k.bad("on_dead", hasColumns(k.table.Given(), "on_dead."+k.cfg.OnDead.Kind, onDead))
	k.work(ctx)
	look := doctor.ReadCheck{Table: k.table, Mapping: k.cfg.Table, Ages: k.cfg.Tiers.MaxAges(), Now: k.now}
	if p := refreshOf(k.cfg); p != nil {
		look.RuleColumn = p.Settings().RRule.Column
		look.CheckRule = func(text string) error {
			_, err := p.Rule(backlog.Memory{Rule: text})
			return err
		}
	}
	leftAlone := doctor.CheckReads(ctx, &k.Findings, look)
	t, ok := k.writes(ctx)
	doctor.AddNotes(&k.Findings, k.table)
	if !k.table.HasDead() && refreshOf(k.cfg) == nil {
		k.AddGood("note", noDead)
	}
	if ok {
		x := doctor.Trial{Table: t, Policy: policyOf(k.cfg.Policy), Now: k.now, NoWrite: k.noWrite}
		doctor.CheckTrial(ctx, &k.Findings, x, leftAlone)
		doctor.AddNotes(&k.Findings, t)
	}
	if k.written != nil {
		k.written.Close()
	}
}

func (k *checker) state() {
	f, err := stateFile(k.cfg)
	if err == nil {
		err = f.Check()
	}
	switch {
	case err != nil:
		k.AddWarning("state", "set state: to a file that this user may write, or $STATE_DIRECTORY to a folder; state: none does without", "%v", err)
	case f.Path == "":
		k.AddGood("state", "none is kept: a restart does not know what was missed")
	default:
		k.AddGood("state", "%s", f.Path)
	}
}

// rivals finds another configuration that works on the table with the same lock and state.
func (k *checker) rivals(ctx context.Context) {
	state, _ := stateFile(k.cfg) // state tells what is wrong with it
	err := k.g.lookAtState(state, k.cfg, k.now)
	if err == nil {
		err = k.g.alone(ctx, k.table, k.cfg, backlog.LeaderLock, backlog.RunLock)
	}
	if !k.bad("name", err) && k.cfg.Name != "" {
		k.AddGood("name", "%s has a lock and a state of its own", k.cfg.Name)
	}
}

// work checks a handler that works in the table's database.
func (k *checker) work(ctx context.Context) {
	if k.cfg.Handler.Kind != "sql" {
		return
	}
	w, err := newWork(ctx, k.table, k.cfg, nil)
	if k.bad("handler", err) {
		return
	}
	n, parameters := w.Steps()
	detail := inspect.Plural(n, "statement") + " understood by the database"
	if len(parameters) > 0 {
		detail += "; parameters: " + strings.Join(parameters, ", ")
	}
	k.AddGood("handler", "%s", detail)
}

// writes checks rights and statuses on a connection that may write, and returns the
// table on it if both are good.
func (k *checker) writes(ctx context.Context) (t *table.Table, ok bool) {
	db, err := openDatabase(ctx, k.cfg.Database, table.Options{Patience: time.Second})
	if k.bad("rights", err) {
		return nil, false
	}
	k.written = db
	if k.bad("rights", db.CheckRights(ctx)) {
		return nil, false
	}
	if t, err = table.New(ctx, db, mappingOf(k.cfg)); k.bad("table", err) {
		return nil, false
	}
	ok = doctor.CheckWrites(ctx, &k.Findings, doctor.WriteCheck{Table: t, Name: k.cfg.Name, Now: k.now, Clock: time.Now})
	doctor.AddNotes(&k.Findings, t)
	return t, ok
}

// printSQL prints statements and GRANTs. Without the right to read the table there
// are no statements, and the GRANTs are what is needed most.
func (g *globalOptions) printSQL(ctx context.Context, cfg *config.Config) error {
	if s := sourceOf(cfg); s != nil {
		configure, write, read := s.Rights()
		g.printf("rabbitmqctl set_permissions -p VHOST USER '%s' '%s' '%s'\n", configure, write, read)
		return nil
	}
	db, err := openDatabase(ctx, cfg.Database, table.Options{ReadOnly: true})
	if err != nil {
		return err
	}
	defer db.Close()
	t, err := table.New(ctx, db, mappingOf(cfg))
	if err != nil {
		return err
	}
	unproved := t.ProveTimes(ctx, time.Now())
	if unproved == nil {
		for _, s := range t.Statements() {
			g.printf("%s;\n", s)
		}
	}
	for _, s := range doctor.Grants(t) {
		g.printf("%s;\n", s)
	}
	if w, ok := cfg.Handler.Settings.(*sqlSettings); ok {
		for _, s := range w.Statements {
			g.printf("%s\n;\n", strings.TrimSuffix(strings.TrimSpace(s), ";")) // it may end in a comment
		}
	}
	if unproved != nil {
		return fmt.Errorf("table %s: %w", cfg.Table.Name, unproved)
	}
	return nil
}

// handlers checks the handlers, and returns those that there are.
func (k *checker) handlers(ctx context.Context) (h, onDead backlog.ConfiguredHandler) {
	h = k.handler(ctx, "handler", newHandler)
	onDead = k.handler(ctx, "on_dead", newOnDead)
	k.handler(ctx, "on_outage", newOnOutage)
	return h, onDead
}

// handler makes a handler and checks it with its network, if there is one.
func (k *checker) handler(
	ctx context.Context, name string,
	newOne func(context.Context, *config.Config, *slog.Logger) (backlog.ConfiguredHandler, error),
) backlog.ConfiguredHandler {
	h, err := newOne(ctx, k.cfg, nil)
	if !k.bad(name, err) && h != nil {
		checkHandler(ctx, &k.Findings, name, h)
	}
	return h
}
