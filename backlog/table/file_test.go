package table_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"backlog/backlog"
	"backlog/backlog/mapping"
	"backlog/backlog/table"
	"backlog/internal/testkit"
)

// noon is what these tests take for the present.
var noon = time.Date(2026, 2, 10, 12, 0, 0, 0, time.UTC)

const (
	day  = 24 * time.Hour
	ages = 20 * 365 * day // of all records
)

// A file is an SQLite database file, and the connection of the program that
// owns it.
type file struct {
	testing.TB
	path  string
	plain *sql.DB
}

// newFile returns a file that the script has made something of.
func newFile(tb testing.TB, script string) *file {
	tb.Helper()
	f := &file{TB: tb, path: filepath.Join(tb.TempDir(), "a.db")}
	f.plain = openPlain(tb, f.path)
	tb.Cleanup(func() { f.plain.Close() })
	f.exec("PRAGMA journal_mode = WAL; " + script)
	return f
}

func (f *file) exec(script string, args ...any) {
	f.Helper()
	if _, err := f.plain.Exec(script, args...); err != nil {
		f.Fatalf("%s: %v", script, err)
	}
}

// rows returns the rows of a query, their values as SQL literals.
func (f *file) rows(query string) (list []string) {
	f.Helper()
	one, err := f.plain.Query("SELECT * FROM (" + query + ") LIMIT 0")
	if err != nil {
		f.Fatalf("%s: %v", query, err)
	}
	names, err := one.Columns()
	one.Close()
	if err != nil {
		f.Fatal(err)
	}
	for i, n := range names {
		names[i] = `quote("` + strings.ReplaceAll(n, `"`, `""`) + `")`
	}
	rows, err := f.plain.Query("SELECT " + strings.Join(names, " || ' ' || ") + " FROM (" + query + ")")
	if err != nil {
		f.Fatalf("%s: %v", query, err)
	}
	defer rows.Close()
	for rows.Next() {
		var s string
		if err := rows.Scan(&s); err != nil {
			f.Fatal(err)
		}
		list = append(list, s)
	}
	if err := rows.Err(); err != nil {
		f.Fatal(err)
	}
	return list
}

// wantRows checks the rows of a query.
func (f *file) wantRows(query string, want ...string) {
	f.Helper()
	if got := f.rows(query); !reflect.DeepEqual(got, want) {
		f.Errorf("%s:\n got %s\nwant %s", query, strings.Join(got, "\n     "), strings.Join(want, "\n     "))
	}
}

// open opens the file for a mapping.
func (f *file) open(m mapping.Mapping) (*table.Table, error) {
	return f.openWith(m, table.Options{})
}

func (f *file) openWith(m mapping.Mapping, o table.Options) (*table.Table, error) {
	f.Helper()
	db, err := openDB(context.Background(), "sqlite:"+f.path+"?synchronous=normal", o)
	if err != nil {
		return nil, err
	}
	f.Cleanup(func() { db.Close() })
	return table.New(context.Background(), db, m)
}

// store opens the file for a mapping that it can be worked with.
func (f *file) store(m mapping.Mapping) *table.Table {
	f.Helper()
	return f.storeAt(m, noon)
}

// storeAt is store at another time than noon.
func (f *file) storeAt(m mapping.Mapping, now time.Time) *table.Table {
	f.Helper()
	s, err := f.open(m)
	if err == nil {
		err = s.Prove(context.Background(), now)
	}
	if err != nil {
		f.Fatal(err)
	}
	return s
}

// tried returns why passes would dispatch no record of the table.
func tried(s *table.Table) error {
	if err := s.Prove(context.Background(), noon); err != nil {
		return err
	}
	records, err := s.FirstOfEachState(context.Background(), 1)
	if err != nil {
		return err
	}
	list := slices.Concat(slices.Collect(maps.Values(records))...)
	slices.SortFunc(list, func(a, b backlog.Record) int { return a.Origin - b.Origin })
	for i := range list {
		if _, err := backlog.TryRecord(context.Background(), s, &list[i], policyOf(s.Mapping()), noon); err != nil {
			return err
		}
	}
	return nil
}

// policyOf returns a policy that counts failures in the columns of the mapping, or plans by
// them; nil: it has none.
func policyOf(m mapping.Mapping) *backlog.Policy {
	switch {
	case m.Policy == nil || m.Policy.Refresh != nil:
		return nil
	case m.Policy.Next != "":
		return planning(m.Policy.Retries, time.Minute)
	}
	return waiting(m.Policy.Retries, time.Minute)
}

// wantRefused checks that the file cannot be worked with the mapping, for
// the given reason, in which … stands for what a driver adds, and that nothing
// was written to find out.
func (f *file) wantRefused(m mapping.Mapping, want string) {
	f.Helper()
	before := f.content()
	s, err := f.open(m)
	if err == nil {
		err = tried(s)
	}
	if p := (*table.Problem)(nil); !errors.As(err, &p) {
		f.Errorf("got error %v, want a Problem: %s", err, want)
	} else if got := strings.ReplaceAll(err.Error(), f.path, "FILE"); !testkit.Matches(got, want) {
		f.Errorf("refused for another reason\n got %s\nwant %s", got, want)
	} else if p.Hint == "" {
		f.Errorf("refused without a cure: %s", got)
	}
	if after := f.content(); !reflect.DeepEqual(after, before) {
		f.Errorf("the database was changed:\n%s\nbefore:\n%s", strings.Join(after, "\n"), strings.Join(before, "\n"))
	}
}

// content returns the schema and all rows.
func (f *file) content() []string {
	f.Helper()
	all := f.rows("SELECT type, name, sql FROM sqlite_master ORDER BY 1, 2")
	tables, err := f.plain.Query("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")
	if err != nil {
		f.Fatal(err)
	}
	var names []string
	for tables.Next() {
		var n string
		if err := tables.Scan(&n); err != nil {
			f.Fatal(err)
		}
		names = append(names, n)
	}
	tables.Close()
	for _, n := range names {
		all = append(all, f.rows(`SELECT * FROM "`+strings.ReplaceAll(n, `"`, `""`)+`"`)...)
	}
	return all
}

// within is a pattern of every text that has s in it; of an empty one it is empty.
func within(s string) string {
	if s == "" {
		return ""
	}
	return "…" + s + "…"
}

// wantProblemLike checks that the error is a *Problem whose text matches the pattern, or that
// there is none, where the pattern is empty.
func wantProblemLike(t testing.TB, what string, err error, pattern string) {
	t.Helper()
	if pattern == "" {
		if err != nil {
			t.Errorf("%s: got the error %v, want none", what, err)
		}
		return
	}
	if err == nil {
		t.Errorf("%s: got no error, want %s", what, pattern)
		return
	}
	if !errors.As(err, new(*table.Problem)) {
		t.Errorf("%s: got a %T, want a Problem: %v", what, err, err)
	}
	if !testkit.Matches(err.Error(), pattern) {
		t.Errorf("%s:\n got %v\nwant %s", what, err, pattern)
	}
}

// wantNotes checks that one of the notes has the text in it, or that there are none, where the
// text is empty.
func wantNotes(t testing.TB, what string, notes []string, text string) {
	t.Helper()
	if text == "" {
		testkit.Equal(t, what+": notes", len(notes), 0)
		return
	}
	if !slices.ContainsFunc(notes, func(n string) bool { return strings.Contains(n, text) }) {
		t.Errorf("%s: got the notes %q, want one with %q", what, notes, text)
	}
}

func text(s string) mapping.Value   { return mapping.Value{Text: s} }
func quoted(s string) mapping.Value { return mapping.Value{Text: s, Quoted: true} }

var null = mapping.Value{Null: true}

// is returns the state of the status column's values.
func is(values ...mapping.Value) mapping.State { return mapping.State{Values: values, Explicit: true} }

func cond(column string, values ...mapping.Value) mapping.Condition {
	return mapping.Condition{Column: column, Values: values}
}

func set(column string, v mapping.Value) mapping.Assignment {
	return mapping.Assignment{Column: column, Value: v}
}

// readAll returns what a lane's pages of the given size hold.
func readAll(tb testing.TB, s backlog.Store, q backlog.Query) (records []backlog.Record, unreadable []backlog.Unreadable) {
	tb.Helper()
	if q.Now.IsZero() {
		q.Now = noon
	}
	if q.Since.IsZero() {
		q.Since = q.Now.Add(-ages)
	}
	for range 10_000 {
		p, err := s.Pending(context.Background(), q)
		if err != nil {
			tb.Fatal(err)
		}
		records, unreadable = append(records, p.Records...), append(unreadable, p.Unreadable...)
		if !p.More {
			return records, unreadable
		}
		q.After = p.Next
	}
	tb.Fatal("pages without end")
	return nil, nil
}

// lane returns the records of a lane.
func lane(tb testing.TB, s backlog.Store, l backlog.Lane) []backlog.Record {
	tb.Helper()
	records, unreadable := readAll(tb, s, backlog.Query{Lane: l, Limit: 100, Widest: true})
	for _, u := range unreadable {
		tb.Errorf("row %v cannot be read: %v", u.Key, u.Err)
	}
	return records
}

// keys returns the keys of records, a word each.
func keys(records []backlog.Record) string {
	list := make([]string, len(records))
	for i, r := range records {
		list[i] = r.Key.String()
	}
	return strings.Join(list, " ")
}

func wantKeys(tb testing.TB, what string, records []backlog.Record, want string) {
	tb.Helper()
	if got := keys(records); got != want {
		tb.Errorf("%s: got the records %q, want %q", what, got, want)
	}
}

// settle writes one outcome at noon and returns why it could not be written.
func settle(tb testing.TB, s backlog.Store, r backlog.Record, o backlog.Outcome, reason string) error {
	tb.Helper()
	left, err := s.Settle(context.Background(), []backlog.Settlement{{Record: &r, Target: o.Target(), Error: reason, At: noon}})
	if err != nil {
		tb.Fatalf("settle %v as %v: %v", r.Key, o, err)
	}
	if len(left) > 0 {
		return left[0].Err
	}
	return nil
}

// settleAll settles every pending record as f says.
func settleAll(tb testing.TB, s backlog.Store, f func(backlog.Record) (backlog.Outcome, string)) {
	tb.Helper()
	for _, l := range []backlog.Lane{backlog.Failed, backlog.Fresh} {
		for _, r := range lane(tb, s, l) {
			o, reason := f(r)
			if err := settle(tb, s, r, o, reason); err != nil {
				tb.Errorf("settle %v as %v: %v", r.Key, o, err)
			}
		}
	}
}

// pass runs a pass of the widest tier over all records.
func pass(tb testing.TB, s backlog.Store, handle func(*backlog.Record) error) backlog.Report {
	tb.Helper()
	e := &backlog.Engine{
		Store: s, Concurrency: 4,
		Handler: backlog.HandlerFunc(func(_ context.Context, r *backlog.Record) error { return handle(r) }),
	}
	rep, err := e.Pass(context.Background(), backlog.Pass{Tier: "all", MaxAge: ages, Widest: true, Now: noon})
	if err != nil {
		tb.Fatal(err)
	}
	return rep
}

// fields returns the columns that a record brings, as Go has them.
func fields(r backlog.Record) string {
	list := make([]string, len(r.Names))
	for i, n := range r.Names {
		list[i] = fmt.Sprintf("%s=%T(%v)", n, r.Values[i], r.Values[i])
	}
	return strings.Join(list, " ")
}
