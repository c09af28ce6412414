package reader

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"backlog/backlog/checkpoint"
	"backlog/backlog/config"
	"backlog/backlog/handler/exec"
	"backlog/backlog/metrics"
	"backlog/backlog/pings"
	"backlog/backlog/retry"
	"backlog/backlog/simulate"
	"backlog/backlog/table"
	"backlog/backlog/table/db"
	"backlog/backlog/table/sqlite"
	"backlog/backlog/watch"
	"backlog/backlog/web"
	"backlog/internal/testkit"
	"backlog/tiers"
)

// sqliteName is the name of the driver that is linked.
func sqliteName() string {
	if strings.Contains(sqlite.Driver, "mattn") {
		return "sqlite3"
	}
	return "sqlite"
}

// readerOf returns a reader of a table with these statements' rows, and the file of its database.
func readerOf(t *testing.T, yaml string, statements ...string) (r *Reader, file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "shop.db")
	d := testkit.OpenPool(t, sqliteName(), file)
	defer d.Close()
	const create = `CREATE TABLE orders (id integer PRIMARY KEY, status text NOT NULL, date_inserted text NOT NULL, subject text, last_error text)`
	for _, s := range append([]string{create}, statements...) {
		if _, err := d.Exec(s); err != nil {
			t.Fatal(err)
		}
	}
	text := "database: sqlite:" + file + "\ntable: {name: orders, last_error: last_error}\nstatuses: {dead: DEAD}\nhandler: {exec: ['true']}\n" + yaml
	server := NewServer(New(Options{
		Log: slog.New(slog.DiscardHandler), State: new(checkpoint.File), Picture: new(watch.Picture), Clock: time.Now,
	}, settingsOf(t, text)))
	t.Cleanup(server.Close)
	return server.Reader, file
}

// settingsOf returns the settings of a configuration.
func settingsOf(t *testing.T, text string) *Settings {
	t.Helper()
	known := config.Known{
		Handlers:  []config.Settings{{Name: "exec", New: func() any { return exec.NewSettings() }}},
		Observers: []config.Settings{{Name: "web", New: func() any { return web.NewSettings() }}},
	}
	for _, name := range retry.Names() {
		known.Policies = append(known.Policies, config.Settings{Name: name, New: func() any { return retry.New(name) }})
	}
	cfg, err := config.Load(strings.NewReader(text), "schedule.yaml", os.LookupEnv, known)
	if err != nil {
		t.Fatal(err)
	}
	rules := Rules{Mapping: cfg.Table, Schedule: cfg.Tiers}
	m := cfg.Table
	if s, ok := cfg.Policy.Settings.(retry.Settings); ok {
		m.Policy = retry.PolicyColumns(s)
		rules.Policy, err = retry.Policy(s)
		if err != nil {
			t.Fatal(err)
		}
	}
	set := &Settings{Rules: rules, Zone: cfg.Timezone, Metrics: new(metrics.Settings), Pings: pings.NewSettings()}
	set.Web = cfg.Observers["web"].(*web.Settings)
	set.ParseSchedule = func(text string) (*tiers.Schedule, error) { return config.ParseTiers(text, cfg.Timezone) }
	set.Simulation = simulate.Options{Schedule: cfg.Tiers, Policy: rules.Policy, Concurrency: cfg.Handler.Concurrency}
	set.Open = func(ctx context.Context) (*View, func(), error) {
		d, err := db.Open(ctx, sqlite.Dialect, cfg.Database, db.Options{ReadOnly: true, Pool: 1})
		if err != nil {
			return nil, nil, err
		}
		m.Columns = set.Web.Show
		v := &View{Rules: rules}
		v.Table, err = table.Open(ctx, d, m, time.Now())
		return v, func() { d.Close() }, err
	}
	return set
}

func row(id int, status string, age time.Duration, lastError string) string {
	return fmt.Sprintf("INSERT INTO orders VALUES (%d, '%s', '%s', '<b>order %d</b>', nullif('%s', ''))",
		id, status, time.Now().UTC().Add(-age).Format(time.DateTime), id, lastError)
}

const twoTiers = "web: {show: [subject]}\ntiers: [{max_age: 1h, every: 1m}, {max_age: 1d, every: 1h}]\n"

// Failed records are grouped by their last errors. Where these cannot be read, the counts are
// kept all the same.
func TestReaderCauses(t *testing.T) {
	d, file := readerOf(t, twoTiers, row(1, "NEW", time.Minute, ""), row(2, "ERROR", 2*time.Minute, "no such user 2"), row(3, "ERROR", 3*time.Hour, "no such user 3"))
	count := func(a *View, now time.Time) (any, error) { return nil, d.probe(t.Context(), a, now, true) }
	if _, err := withView(t.Context(), d, count); err != nil {
		t.Fatal(err)
	}
	rows := d.Now().Rows
	if rows == nil || len(rows.Causes) != 1 {
		t.Fatalf("want one cause, got %+v", rows)
	}
	testkit.Equal(t, "failed records", rows.Records, 2)
	testkit.Equal(t, "all of them were read", rows.Complete, true)
	testkit.Equal(t, "the cause", rows.Causes[0].Error, "no such user #")
	testkit.Equal(t, "records of the cause", rows.Causes[0].Records, 2)
	db := testkit.OpenPool(t, sqliteName(), file)
	if _, err := db.Exec("ALTER TABLE orders DROP COLUMN last_error; DELETE FROM orders WHERE id = 1; ALTER TABLE orders ADD COLUMN last_error text AS (abs(-9223372036854775807 - 1))"); err != nil {
		t.Fatal(err)
	}
	if _, err := withView(t.Context(), d, count); err == nil || !strings.Contains(err.Error(), "causes of failed records: ") {
		t.Errorf("of a column that cannot be read: %v", err)
	}
	if n := d.Now(); n.Counts == nil || n.Counts.Pending != 2 || n.Rows != nil {
		t.Errorf("of a column that cannot be read: %+v, %+v", n.Counts, n.Rows)
	}
}

// What a page's filter means is what the table has, and what a retry of it would take.
func TestReaderRecords(t *testing.T) {
	d, _ := readerOf(t, twoTiers,
		row(1, "NEW", time.Minute, ""), row(2, "ERROR", 2*time.Minute, "no route"), row(3, "ERROR", 3*time.Hour, "no such user 3"),
		row(4, "ERROR", 4*time.Hour, "no such user 4"), row(5, "DEAD", time.Hour, "no route"), row(6, "ERROR", 50*time.Hour, "no route"), row(7, "SUCCESS", time.Hour, ""))
	for _, x := range []struct {
		f      web.Filter
		want   string
		chosen int // -1: not to be retried as such
	}{
		{web.Filter{}, "1 2 3 4 6", -1},
		{web.Filter{Lane: "fresh"}, "1", -1},
		{web.Filter{Lane: "failed"}, "2 3 4 6", 4},
		{web.Filter{Lane: "failed", Band: "1h"}, "2", 1},
		{web.Filter{Lane: "failed", Band: "beyond"}, "6", 1},
		{web.Filter{Lane: "failed", Cause: "no such user #"}, "3 4", 2},
		{web.Filter{State: "dead"}, "5", 1},
		{web.Filter{ID: "3"}, "3", 1},
		{web.Filter{ID: "99"}, "", -1},
	} {
		f := x.f
		f.Limit = 2
		var got []string
		for {
			page, err := d.Records(t.Context(), f, nil)
			if err != nil {
				t.Fatalf("%+v: %v", f, err)
			}
			for _, e := range page.Records {
				got = append(got, e.ID.String())
				id := e.ID.String()
				retrying := e.State == "error" && id != "6" // which no tick reaches any more
				testkit.Equal(t, id+": it is in retry", e.Retrying, retrying)
				if len(e.Data) != 1 {
					t.Fatalf("%s: got %d columns, want 1: %+v", id, len(e.Data), e)
				}
				testkit.Equal(t, id+": subject", *e.Data[0].Value, "<b>order "+id+"</b>")
			}
			if page.Next == nil {
				break
			}
			f.After = *page.Next
		}
		if strings.Join(got, " ") != x.want {
			t.Errorf("%+v: got %v, want %s", x.f, got, x.want)
		}
		c, err := d.Choose(t.Context(), x.f)
		what := fmt.Sprintf("%+v: ", x.f)
		testkit.Equal(t, what+"it cannot be retried", err != nil, x.chosen < 0)
		if err != nil {
			continue
		}
		testkit.Equal(t, what+"chosen records", c.Records, x.chosen)
		testkit.Equal(t, what+"examples", len(c.Examples), min(3, x.chosen))
		if c.Where == "" {
			t.Errorf("%swant a condition, got none: %+v", what, c)
		}
	}
}

// Blue is what has failed and will be tried again: neither what is out of retries nor what
// no tick reaches any more.
func TestReaderInRetry(t *testing.T) {
	const linear = "policy: {linear: {interval: 1m, max_retries: 3}}\n" + twoTiers
	const refresh = "policy: {refresh: {every: 2h, timeout: 1h}}\ntiers: [{every: 1m}]\n"
	old := func(hours int) string {
		return time.Now().UTC().Add(-time.Duration(hours) * time.Hour).Format(time.DateTime)
	}
	linearColumns := []string{"ALTER TABLE orders ADD attempt_count int", "ALTER TABLE orders ADD last_attempt_time text", "ALTER TABLE orders ADD next_attempt_time text", "ALTER TABLE orders ADD in_retry boolean"}
	refreshColumns := []string{"ALTER TABLE orders ADD refresh_at text", "ALTER TABLE orders ADD attempt_no int", "ALTER TABLE orders ADD deadline_at text", "ALTER TABLE orders ADD attempt_uid text",
		"ALTER TABLE orders ADD started_at text", "ALTER TABLE orders ADD disabled boolean DEFAULT 0", "ALTER TABLE orders ADD disabled_reason text", "ALTER TABLE orders ADD failing_since text"}
	failed := func(id, count, hours int) string {
		return fmt.Sprintf("INSERT INTO orders VALUES (%d, 'ERROR', '%s', 'x', 'y', %d, '%[2]s', '%[2]s', 1)", id, old(hours), count)
	}
	attempt := func(id, no int, at, deadline string, disabled int) string {
		return fmt.Sprintf("INSERT INTO orders VALUES (%d, 'NEW', '%s', 'x', 'y', nullif('%s', ''), %d, nullif('%s', ''), nullif('%[5]s', ''), nullif('%[5]s', ''), %d, NULL, NULL)", id, old(5), at, no, deadline, disabled)
	}
	for _, x := range []struct {
		name, yaml string
		statements []string
		blue       string
	}{
		{"linear", linear, append(linearColumns, failed(1, 1, 2), failed(2, 3, 2), failed(3, 4, 2), failed(4, 9, 2), failed(5, 1, 48)), "1 2"},
		{"refresh", refresh, append(refreshColumns, attempt(1, 1, old(1), "", 0), attempt(2, 1, "", old(-1), 0), attempt(3, 2, "", old(-1), 0), attempt(4, 0, old(1), "", 0),
			attempt(5, 3, old(1), "", 1), attempt(6, 2, "", "", 0), attempt(7, 3, old(-1), "", 0)), "1 3 7"},
	} {
		t.Run(x.name, func(t *testing.T) {
			d, _ := readerOf(t, x.yaml, x.statements...)
			var blue []string
			for id := range 9 {
				r, err := d.Record(t.Context(), fmt.Sprint(id), nil)
				if err != nil {
					continue
				}
				list, err := d.Records(t.Context(), web.Filter{ID: fmt.Sprint(id), Limit: 1}, nil)
				if err != nil || len(list.Records) != 1 || list.Records[0].Retrying != r.Retrying {
					t.Errorf("record %d: %+v, %v, as one %v", id, list, err, r.Retrying)
				}
				if r.Retrying {
					blue = append(blue, fmt.Sprint(id))
				}
			}
			if got := strings.Join(blue, " "); got != x.blue {
				t.Errorf("blue are %s, want %s", got, x.blue)
			}
		})
	}
}

// What the visitor has got wrong is said with its status.
func TestReaderProblems(t *testing.T) {
	d, _ := readerOf(t, twoTiers, row(1, "NEW", time.Minute, ""))
	record := func(id string) error { _, err := d.Record(t.Context(), id, nil); return err }
	records := func(f web.Filter) error { _, err := d.Records(t.Context(), f, nil); return err }
	simulated := func(text string) error { _, err := d.Simulate(t.Context(), text); return err }
	retried := func() error { _, err := d.Retry(t.Context(), web.Filter{ID: "1"}, 1); return err }
	for i, x := range []struct {
		err    error
		status int
		text   string
	}{
		{record("9"), http.StatusNotFound, "no record 9"},
		{record("x"), http.StatusBadRequest, "x"},
		{records(web.Filter{Band: "2h"}), http.StatusBadRequest, "no tier"},
		{records(web.Filter{State: "dead", Lane: "failed"}), http.StatusBadRequest, "exclude"},
		{records(web.Filter{State: "odd"}), http.StatusBadRequest, "odd"},
		{records(web.Filter{After: "odd"}), http.StatusBadRequest, "place"},
		{simulated("tiers: [{max_age: 1d}]"), http.StatusBadRequest, "every"},
		{simulated("handler: {exec: ['true']}\ntiers: [{max_age: 1d, every: 5m}]"), http.StatusBadRequest, "handler"},
		{simulated("${HOME}"), http.StatusBadRequest, ""},
		{retried(), http.StatusNotFound, "its status is NEW (new)"},
		{d.Pause(&watch.Pause{}), http.StatusConflict, "no file"},
		{d.Resolve(t.Context(), web.Resolution{UID: "u", Outcome: "success"}), http.StatusConflict, "UID"},
	} {
		var p *web.Problem
		if !errors.As(x.err, &p) || p.Status != x.status || !strings.Contains(p.Text, x.text) {
			t.Errorf("%d: got %v, want %d with %q", i, x.err, x.status, x.text)
		}
	}
}

// A record's future is what simulate --life tells, from now on.
func TestReaderAhead(t *testing.T) {
	d, _ := readerOf(t, twoTiers, row(1, "ERROR", 30*time.Minute, "no route"), row(2, "SUCCESS", time.Minute, ""))
	r, err := d.Record(t.Context(), "1", nil)
	if err != nil {
		t.Fatal(err)
	}
	if r.Ahead == nil || len(r.Ahead.Tiers) != 2 {
		t.Fatalf("want ticks of two tiers ahead, got %+v", r.Ahead)
	}
	if ticks := r.Ahead.Tiers[0].Ticks; ticks < 29 || ticks > 31 {
		t.Errorf("the narrow tier has %d ticks ahead, want 29 to 31", ticks)
	}
	testkit.Equal(t, "ticks of the wide tier", r.Ahead.Tiers[1].Ticks, 23)
	testkit.Equal(t, "what comes then", r.Ahead.Then, "it is older than every tier, and gets the dead status")
	if r, err := d.Record(t.Context(), "2", nil); err != nil || r.Ahead != nil {
		t.Errorf("a success: %+v, %v", r.Ahead, err)
	}
}

// Many records are simulated as points, each for several.
// tiersOf returns a schedule of so many tiers.
func tiersOf(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "- {max_age: %dh, every: 1h}\n", i+1)
	}
	return b.String()
}

func TestReaderSimulate(t *testing.T) {
	d, _ := readerOf(t, twoTiers, "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 25000) INSERT INTO orders "+
		"SELECT i, 'ERROR', datetime('now', '-' || (i % 600) || ' minutes'), '', '' FROM n")
	s, err := d.Simulate(t.Context(), "- {max_age: 1d, every: 2h}")
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Rows) != 2 || len(s.Columns) != len(s.Rows[0]) {
		t.Fatalf("want two rows with a cell for each of %q, got %q", s.Columns, s.Rows)
	}
	if !strings.HasPrefix(string(s.Plot), "<svg") {
		t.Fatalf("want a picture, got %.40q", s.Plot)
	}
	wide, err := d.Simulate(t.Context(), "- {max_age: 3650d, every: 2h}")
	if err != nil || wide.Rows[0][1] != strings.TrimSuffix(s.Rows[0][1], "*") && strings.TrimSuffix(wide.Rows[0][1], "*") != strings.TrimSuffix(s.Rows[0][1], "*") {
		t.Errorf("the running schedule has %v beside one of ten years, %v beside another: %v", wide.Rows, s.Rows, err)
	}
	if _, err := d.Simulate(t.Context(), "tiers: [{max_age: 1d, every: 5m}]\n---\nx"); err == nil || strings.Contains(err.Error(), "nothing is written") {
		t.Errorf("two documents: %v", err)
	}
	for bomb, want := range map[string]string{
		"a: &a [x, x]\nb: &b [*a, *a]\ntiers: *b": "an alias",
		strings.Repeat("[", 60_000):               "nested too deeply",
		tiersOf(51):                               "51 tiers are too many",
	} {
		if _, err := d.Simulate(t.Context(), bomb); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60q: %v, want %s", bomb, err, want)
		}
	}
	var calls [2]float64
	for i := range calls {
		fmt.Sscan(strings.Trim(s.Rows[i][1], "*"), &calls[i])
	}
	// Each record is tried hourly for the rest of a day, or every two hours.
	testkit.Equal(t, "the second column", s.Columns[1], "CALLS")
	if share := calls[0] / calls[1]; share < 1.9 || share > 4 {
		t.Errorf("an hourly schedule makes %v times the calls, want 1.9 to 4: %v", share, calls)
	}
	if calls[1] < 25000*6 || calls[1] > 25000*12 {
		t.Errorf("got %v calls, want 6 to 12 of each record", calls[1])
	}
}
