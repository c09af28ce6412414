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

// errCheck is the error of findings that are not all good. They are printed already.
var errCheck = errors.New("not everything is as it must be")

func runCheck(ctx context.Context, o CheckOptions, g *globalOptions) error {
	_, now := o.clock()
	cfg, err := g.loadAny()
	k := &checker{g: g, cfg: cfg, now: now, noWrite: o.NoWrite}
	switch {
	case err != nil && o.JSON && !o.SQL:
		k.failed("config", err)
		return errors.Join(err, g.printChecks(false, k.Findings, config.Policy{}))
	case err != nil:
		return err
	case o.SQL:
		return g.printSQL(ctx, cfg)
	case sourceOf(cfg) != nil:
		k.checkSource(ctx, sourceOf(cfg))
	default:
		k.checkTable(ctx)
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

// printChecks prints the findings as JSON and, under the policy refresh, its settings as they were
// understood: they may be written as sentences.
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
	g        *globalOptions
	cfg      *config.Config
	now      time.Time
	table    *table.Table
	writable *table.DB // a connection that may write; nil: not opened

	noWrite       bool
	misconfigured bool // the URL of the database is malformed
}

// failed is [doctor.AddFailure]: if there is an error, it adds that to the findings and returns true. It also
// notes whether the URL of the database is malformed.
func (k *checker) failed(name string, err error) bool {
	k.misconfigured = k.misconfigured || errors.As(err, new(*urlError))
	return doctor.AddFailure(&k.Findings, name, err)
}

// checkTable checks a configuration with a table, from the handler to a trial of each outcome.
func (k *checker) checkTable(ctx context.Context) {
	database := redactedURL(k.cfg.Database)
	if k.cfg.Database == config.DefaultDatabase {
		database += ", which is the default"
	}
	k.AddGood("config", "%s: %s, table %s, %s", k.g.Config, inspect.Plural(len(k.cfg.Tiers.Tiers()), "tier"), k.cfg.Table.Name, database)
	handler, onDead := k.checkHandlers(ctx)
	k.checkState()
	if address, err := k.g.checkPages(k.cfg); address != "" && !k.failed("web", err) {
		k.AddGood("web", "pages at %s", address)
	}
	k.checkSchedule()

	// The first connection needs no right to write, so that a missing right is one finding of several.
	db, err := openDatabase(ctx, k.cfg.Database, table.Options{ReadOnly: true})
	if k.failed("database", err) {
		return
	}
	defer db.Close()
	k.AddGood("database", "%s is there and can be read (driver %s)", redactedURL(k.cfg.Database), db.Text().Driver)
	k.table, err = table.New(ctx, db, mappingOf(k.cfg))
	if k.failed("table", err) {
		return
	}
	k.AddGood("table", "%s has the columns named, and its key is unique", k.cfg.Table.Name)
	k.checkRivals(ctx)
	k.failed("handler", hasColumns(k.table.HandlerColumns(), "handler."+k.cfg.Handler.Kind, handler))
	k.failed("on_dead", hasColumns(k.table.HandlerColumns(), "on_dead."+k.cfg.OnDead.Kind, onDead))
	k.checkSQLHandler(ctx)
	k.checkRows(ctx)
}

// checkSchedule checks the tiers, and what the policy does with them.
func (k *checker) checkSchedule() {
	k.CheckTiers(k.cfg.Tiers)
	if refresh := refreshOf(k.cfg); refresh != nil {
		refresh.CheckSchedule(&k.Findings, k.cfg.Tiers, k.now)
		return
	}
	if policy := policyOf(k.cfg.Policy); policy != nil {
		k.CheckPolicy(policy, k.cfg.Tiers)
	}
}

// checkRows checks how rows are read, and whether outcomes can be written to them. What is written
// is rolled back.
func (k *checker) checkRows(ctx context.Context) {
	reads := doctor.ReadCheck{Table: k.table, Mapping: k.cfg.Table, Ages: k.cfg.Tiers.MaxAges(), Now: k.now}
	refresh := refreshOf(k.cfg)
	if refresh != nil {
		reads.RuleColumn = refresh.Settings().RRule.Column
		reads.CheckRule = func(text string) error {
			_, err := refresh.Rule(backlog.Memory{Rule: text})
			return err
		}
	}
	leftAlone := doctor.CheckReads(ctx, &k.Findings, reads)
	writableTable, ok := k.checkWrites(ctx)
	if k.writable != nil {
		defer k.writable.Close()
	}
	doctor.AddNotes(&k.Findings, k.table)
	if !k.table.HasDead() && refresh == nil {
		k.AddGood("note", noDead)
	}
	if ok {
		trial := doctor.Trial{Table: writableTable, Policy: policyOf(k.cfg.Policy), Now: k.now, NoWrite: k.noWrite}
		doctor.CheckTrial(ctx, &k.Findings, trial, leftAlone)
		doctor.AddNotes(&k.Findings, writableTable)
	}
}

// checkState checks the state file.
func (k *checker) checkState() {
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

// checkRivals finds another configuration that works on the table with the same lock and state file.
func (k *checker) checkRivals(ctx context.Context) {
	state, _ := stateFile(k.cfg) // checkState reports its errors
	err := k.g.checkTicks(state, k.cfg, k.now)
	if err == nil {
		err = k.g.checkLocks(ctx, k.table, k.cfg, backlog.LeaderLock, backlog.RunLock)
	}
	if !k.failed("name", err) && k.cfg.Name != "" {
		k.AddGood("name", "%s has a lock and a state of its own", k.cfg.Name)
	}
}

// checkSQLHandler checks a handler that works in the table's database.
func (k *checker) checkSQLHandler(ctx context.Context) {
	if k.cfg.Handler.Kind != "sql" {
		return
	}
	w, err := newWork(ctx, k.table, k.cfg, nil)
	if k.failed("handler", err) {
		return
	}
	n, parameters := w.Steps()
	detail := inspect.Plural(n, "statement") + " understood by the database"
	if len(parameters) > 0 {
		detail += "; parameters: " + strings.Join(parameters, ", ")
	}
	k.AddGood("handler", "%s", detail)
}

// checkWrites checks rights and statuses on a connection that may write. It returns the table on that
// connection, and whether both are good.
func (k *checker) checkWrites(ctx context.Context) (t *table.Table, ok bool) {
	db, err := openDatabase(ctx, k.cfg.Database, table.Options{Patience: time.Second})
	if k.failed("rights", err) {
		return nil, false
	}
	k.writable = db
	if k.failed("rights", db.CheckRights(ctx)) {
		return nil, false
	}
	t, err = table.New(ctx, db, mappingOf(k.cfg))
	if k.failed("table", err) {
		return nil, false
	}
	ok = doctor.CheckWrites(ctx, &k.Findings, doctor.WriteCheck{Table: t, Name: k.cfg.Name, Now: k.now, Clock: time.Now})
	doctor.AddNotes(&k.Findings, t)
	return t, ok
}

// printSQL prints the statements and the GRANTs they need. Without the right to read the table it prints
// the GRANTs alone, because these help.
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
			g.printf("%s\n;\n", strings.TrimSuffix(strings.TrimSpace(s), ";")) // on its own line, because the statement may end in a comment
		}
	}
	if unproved != nil {
		return fmt.Errorf("table %s: %w", cfg.Table.Name, unproved)
	}
	return nil
}

// checkHandlers checks all handlers. It returns the handlers of records; nil: none is configured, or it
// cannot be made.
func (k *checker) checkHandlers(ctx context.Context) (h, onDead backlog.ConfiguredHandler) {
	h = k.checkHandler(ctx, "handler", k.g.newHandler)
	onDead = k.checkHandler(ctx, "on_dead", k.g.newOnDead)
	k.checkHandler(ctx, "on_outage", k.g.newOnOutage)
	return h, onDead
}

// checkHandler makes a handler and, if it is configured, checks it and its network.
func (k *checker) checkHandler(
	ctx context.Context, name string,
	newOne func(context.Context, *config.Config, *slog.Logger) (backlog.ConfiguredHandler, error),
) backlog.ConfiguredHandler {
	h, err := newOne(ctx, k.cfg, nil)
	if !k.failed(name, err) && h != nil {
		checkHandler(ctx, &k.Findings, name, h)
	}
	return h
}
