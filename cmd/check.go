package cmd

import (
	"context"
	"errors"
	"fmt"
	"maps"
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

func newCheck(g *globals) *cobra.Command {
	var o CheckOptions
	c := &cobra.Command{
		Use:   "check",
		Short: "Prove that a pass can work, touching nothing",
		Annotations: map[string]string{
			"0":  "all is as it must be; --sample: the handler was called, whatever the outcome",
			"1":  "something is not, or the handler could not be called",
			"75": "--sample, and another process is working on this table",
		},
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			switch sampling := c.Flags().Changed("sample"); {
			case sampling && o.SQL:
				return usagef("say one of --sample and --sql")
			case sampling:
				return runSample(c.Context(), o, g)
			}
			return runCheck(c.Context(), o, g)
		},
	}
	f := c.Flags()
	f.BoolVar(&o.SQL, "sql", false, "print every statement that passes run")
	f.StringVar(&o.Sample, "sample", "", "call the handler, for real, with the record that has this `ID`")
	f.BoolVar(&o.NoWrite, "no-write", false, "leave out what is written to rows and rolled back")
	o.dataFlags.AddFlags(f)
	return c
}

// errCheck says that the findings, already printed, are not all good.
var errCheck = errors.New("not everything is as it must be")

func runCheck(ctx context.Context, o CheckOptions, g *globals) error {
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
func (g *globals) printChecks(ok bool, list []inspect.Finding, p config.Policy) error {
	return printJSON(g.out, struct {
		OK     bool              `json:"ok"`
		Checks []inspect.Finding `json:"checks"`
		Policy any               `json:"policy,omitempty"`
	}{ok, list, refreshSettings(p)})
}

// A checker collects findings.
type checker struct {
	inspect.Findings
	g       *globals
	cfg     *config.Config
	now     time.Time
	table   *table.Table
	written *table.DB // that may be written to; nil: not opened

	noWrite       bool
	leftAlone     string // what statuses has found besides
	misconfigured bool   // the database's URL is none
}

// bad adds the error, or each of several, and reports whether there was one. The hint is
// the text after the semicolon unless the error carries its own.
func (k *checker) bad(name string, err error) bool {
	if err == nil {
		return false
	}
	if all := (*problems)(nil); errors.As(err, &all) {
		for _, err := range all.List {
			k.bad(name, err)
		}
		return true
	}
	f := inspect.Finding{Name: name}
	if errors.As(err, new(*urlError)) {
		k.misconfigured = true
	}
	if p := (*table.Problem)(nil); errors.As(err, &p) {
		f.Detail, f.Cure = strings.Replace(err.Error(), "; "+p.Hint, "", 1), p.Hint
	} else if f.Detail = err.Error(); !strings.Contains(f.Detail, "\n") {
		f.Detail, f.Cure, _ = strings.Cut(f.Detail, "; ")
	}
	f.Detail = strings.TrimPrefix(f.Detail, name+": ") // it stands there already
	if !slices.Contains(k.Findings, f) {
		k.Findings = append(k.Findings, f)
	}
	return true
}

func (k *checker) all(ctx context.Context) {
	k.AddGood("config", "%s: %s, table %s, %s", k.g.Config, plural(len(k.cfg.Tiers.Tiers()), "tier"), k.cfg.Table.Name, shownURL(k.cfg.Database))
	h, onDead := k.tools(ctx)
	k.state()
	k.CheckTiers(k.cfg.Tiers)
	k.policy()

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
	k.bad("handler", hasColumns(k.table.Given(), "handler."+k.cfg.Handler.Kind, h))
	k.bad("on_dead", hasColumns(k.table.Given(), "on_dead."+k.cfg.OnDead.Kind, onDead))
	k.work(ctx)
	if !k.bad("times", k.table.ProveTimes(ctx, k.now)) {
		k.times(ctx)
	}
	k.plans(ctx)
	k.counts(ctx)
	k.rules(ctx)
	t, ok := k.writes(ctx)
	k.notes(k.table)
	if !k.table.HasDead() && refreshOf(k.cfg) == nil {
		k.AddGood("note", noDead)
	}
	if ok {
		k.trial(ctx, t)
		k.notes(t)
	}
	if k.written != nil {
		k.written.Close()
	}
}

// trial has the database judge what may be written to a row of each state.
func (k *checker) trial(ctx context.Context, t *table.Table) {
	const takes, untried = "the table takes what is set", "the table takes what is set, as far as the catalogue tells: nothing was "
	if k.noWrite {
		k.AddGood("statuses", untried+"written%s", k.leftAlone)
		return
	}
	headline, detail, ok := untried+"tried", k.leftAlone, true
	store, err := storeOf(k.cfg, t)
	if k.bad("statuses", err) {
		return
	}
	records, err := t.OfEachState(ctx)
	if k.bad("statuses", err) {
		return
	}
	for _, state := range slices.Sorted(maps.Keys(records)) {
		r := records[state]
		if r == nil {
			detail += fmt.Sprintf("\n%s: not tried, there is no such row that a pass takes", shown(state))
			continue
		}
		_, err := backlog.TryRecord(ctx, store, r, policyOf(k.cfg), k.now)
		switch {
		case errors.Is(err, backlog.ErrLocked) || errors.Is(err, backlog.ErrConflict) || errors.Is(err, backlog.ErrUnavailable):
			detail += fmt.Sprintf("\n%s: not tried, row %s is not free: %v", shown(state), shown(r.Key.String()), err)
		case k.bad("statuses", err):
			ok = false
		default:
			headline = takes
			detail += fmt.Sprintf("\n%s: tried on row %s and rolled back", shown(state), shown(r.Key.String()))
		}
	}
	if ok {
		k.AddGood("statuses", "%s%s", headline, detail)
	}
}

// notes adds the table's notes, each once.
func (k *checker) notes(t *table.Table) {
	for _, n := range t.Notes() {
		if !slices.ContainsFunc(k.Findings, func(f inspect.Finding) bool { return f.Name == "note" && f.Detail == n }) {
			k.AddWarning("note", "", "%s", n)
		}
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
	detail := plural(n, "statement") + " understood by the database"
	if len(parameters) > 0 {
		detail += "; parameters: " + strings.Join(parameters, ", ")
	}
	k.AddGood("handler", "%s", detail)
}

func (k *checker) times(ctx context.Context) {
	samples, err := doctor.Samples(ctx, k.table, k.now)
	if k.bad("times", err) {
		return
	}
	k.AddGood("times", "%s", strings.Join(append(k.table.TimeForms(), samples...), "\n"))
}

// plans finds missing indexes.
func (k *checker) plans(ctx context.Context) {
	plans, err := doctor.Plans(ctx, k.table, k.table.Readings(k.now))
	if k.bad("index", err) {
		return
	}
	for i, p := range plans {
		switch {
		case p.Bad != "":
			k.AddWarning("index", "`backlog init`, or: "+p.Hint, "%s: %s\nby this plan: %s", p.What, p.Bad, strings.Join(p.Steps, "; "))
		case p.Index == "":
			k.AddGood("index", "%s: served by the key", p.What)
		case i > 0 && p.What == plans[i-1].What && plans[i-1].Bad == "":
			k.Findings[len(k.Findings)-1].Detail += " and " + p.Index
		default:
			k.AddGood("index", "%s: served by the index %s", p.What, p.Index)
		}
	}
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
	defer k.notes(t)
	late := k.bad("times", t.ProveTimes(ctx, k.now))
	ok = !k.bad("statuses", t.ProveWrites(ctx, k.now)) && !late
	k.AddGood("rights", "the database can be written to")
	if ahead, err := db.Skew(ctx, time.Now); !k.bad("clock", err) && ahead.Abs() > mostSkew {
		k.AddWarning("clock", "set both by the same time servers (NTP)", "%s", apart(ahead))
	}
	if advice := t.Catalog().Advice; advice != "" {
		advice, cure, _ := strings.Cut(advice, "; ")
		k.AddWarning("database", cure, "%s", advice)
	}
	lock, err := t.TryLock(ctx, backlog.RunLock)
	switch {
	case errors.Is(err, backlog.ErrLocked):
		k.AddGood("lock", "another process is working on this table just now")
	case !k.bad("lock", err):
		lock.Unlock()
		k.AddGood("lock", "the table can be locked")
	}
	return t, ok
}

// printSQL prints statements and GRANTs. Without the right to read the table there
// are no statements, and the GRANTs are what is needed most.
func (g *globals) printSQL(ctx context.Context, cfg *config.Config) error {
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
	for _, s := range sqlStatements(cfg) {
		g.printf("%s\n;\n", strings.TrimSuffix(strings.TrimSpace(s), ";")) // it may end in a comment
	}
	if unproved != nil {
		return fmt.Errorf("table %s: %w", cfg.Table.Name, unproved)
	}
	return nil
}
