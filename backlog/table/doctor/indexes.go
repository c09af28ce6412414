package doctor

import (
	"cmp"
	"context"
	"crypto/sha256"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"time"

	"backlog/backlog/table"
	"backlog/backlog/table/db"
)

// A Plan is how the database reads the pages of one status.
type Plan struct {
	What  string   // the condition
	Index string   // that serves; "": none, or the key itself
	Bad   string   // why pages read more than their rows; "" if they do not
	Steps []string // how the database reads them then, in its words
	Hint  string   // the statement that creates the index to have then
}

// Plans compares the indexes to have with the indexes there are. now is the time of a
// pass.
func Plans(ctx context.Context, t *table.Table, now time.Time) (list []Plan, err error) {
	d := t.DB()
	err = d.Within(ctx, func(ctx context.Context) error {
		conn, err := d.Read.Conn(ctx)
		if err != nil {
			return err
		}
		defer conn.Close()
		was := t.Catalog()
		cat, err := d.Catalog(ctx, conn, cmp.Or(was.Schema, was.In), was.Name)
		if err != nil {
			return err
		}
		list, err = compare(ctx, t, conn, cat, now)
		return err
	})
	return list, err
}

// compare is Plans by a catalogue. conn may be nil where there is no table yet.
func compare(ctx context.Context, t *table.Table, conn *sql.Conn, cat *db.Catalog, now time.Time) (list []Plan, err error) {
	text := t.DB().Text()
	for _, r := range t.Readings(now) {
		create := func(name string) string { return createIndex(t, name, r) }
		name := freeName(text, t.Mapping().Name, cat, r, create)
		p := Plan{What: r.What, Bad: "no index serves its pages", Hint: create(name)}
		var partial []string
		for _, x := range cat.Serving(r.Equal, r.Order) {
			if x.Where == "" || isOurs(text, x, r) {
				p.Index, p.Bad, p.Hint = x.Name, "", ""
				break
			}
			partial = append(partial, x.Name)
		}
		if slices.ContainsFunc(cat.Indexes, func(x db.Index) bool { return x.Name == name }) { // of the beginnings of texts, at best
			p.Index, p.Bad, p.Hint = name, "", ""
		}
		if p.Bad != "" && conn != nil {
			if p.Steps, err = explained(ctx, text, conn, r); err != nil {
				return nil, err
			}
			used := func(name string) bool { return strings.Contains(strings.Join(p.Steps, "\n"), name) }
			if i := slices.IndexFunc(partial, used); i >= 0 {
				p.Index, p.Bad, p.Hint = partial[i], "", ""
			}
		}
		list = append(list, p)
	}
	return list, nil
}

// literals are the values in a condition.
var literals = db.Pattern(`'(?:[^']|'')*'|\b[0-9]+(?:\.[0-9]+)?\b`)

// isOurs reports whether the partial index is one that init has made: by its
// name, and by the values and columns of its condition.
func isOurs(text *db.Text, x db.Index, r table.Reading) bool {
	number := strings.TrimPrefix(strings.ToLower(x.Name), strings.ToLower(cutBytes(r.Name, text.NameLength-4)))
	if len(number) == len(x.Name) || number != "" && !strings.HasPrefix(number, "_v") {
		return false
	}
	for _, name := range r.Told {
		if !strings.Contains(strings.ToLower(x.Where), strings.ToLower(name)) {
			return false
		}
	}
	trimmed := func(text string) []string {
		list := literals().FindAllString(text, -1)
		for i, s := range list {
			list[i] = strings.Trim(s, "'")
		}
		return list
	}
	return slices.Equal(trimmed(x.Where), trimmed(r.Where))
}

// explained returns the plan of the page's query as the database has it.
func explained(ctx context.Context, text *db.Text, conn *sql.Conn, r table.Reading) (steps []string, err error) {
	lines, err := db.Scanned(ctx, conn, text.Explain+text.Place(r.Query), r.Args, func(rows *sql.Rows) (string, error) {
		names, err := rows.Columns()
		if err != nil {
			return "", err
		}
		values, err := db.ScanValues(rows, len(names))
		if names[len(names)-1] == "detail" { // SQLite's numbers say nothing
			values = values[len(names)-1:]
		}
		var words []string
		for _, v := range values {
			words = append(words, db.AsText(v))
		}
		return strings.Join(slices.DeleteFunc(words, func(w string) bool { return w == "" }), " "), err
	})
	return db.Distinct(lines), err
}

// MissingIndexes returns the statements that create an index for every status
// whose pages read more than they return.
func MissingIndexes(ctx context.Context, t *table.Table, now time.Time) ([]string, error) {
	plans, err := Plans(ctx, t, now)
	return hints(plans), err
}

// hints returns the statements of the plans. Where an index has no condition, one
// can serve several states.
func hints(plans []Plan) (list []string) {
	for _, p := range plans {
		if p.Hint != "" {
			list = append(list, p.Hint)
		}
	}
	return db.Distinct(list)
}

// createIndex returns the statement for the index of the reading.
func createIndex(t *table.Table, name string, r table.Reading) string {
	text, m := t.DB().Text(), t.Mapping()
	on := text.Qualified(cmp.Or(m.Schema, t.Catalog().Schema), m.Name)
	if text.OneSchema {
		on = text.Quote(m.Name)
	}
	if !text.PartialIndexes {
		r.Where = ""
	}
	return text.Index(t.Catalog(), on, name, r.Columns, r.Where)
}

// freeName returns a name for the index that nothing else has: where an index has
// a condition, its lane's, numbered; else one by what it has, since two states, or
// two configurations, may need the very same.
func freeName(text *db.Text, of string, cat *db.Catalog, r table.Reading, create func(string) string) string {
	if !text.PartialIndexes {
		sum := sha256.Sum256([]byte(create("")))
		hash := fmt.Sprintf("_backlog_%x", sum[:4])
		return cutBytes(of, text.NameLength-len(hash)) + hash
	}
	wanted := cutBytes(r.Name, text.NameLength-4)
	name := wanted
	for n := 2; slices.ContainsFunc(cat.Taken, func(x string) bool { return strings.EqualFold(x, name) }); n++ {
		name = fmt.Sprintf("%s_v%d", wanted, n)
	}
	return name
}

// cutBytes returns the longest beginning of whole characters within n bytes.
func cutBytes(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "")
}
