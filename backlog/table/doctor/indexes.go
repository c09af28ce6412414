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

// Plans compares the indexes that the queries should have with the indexes there are.
func Plans(ctx context.Context, t *table.Table, readings []table.Reading) (list []Plan, err error) {
	d, was := t.DB(), t.Catalog()
	cat, err := d.Describe(ctx, cmp.Or(was.Schema, was.In), was.Name)
	if err == nil {
		err = d.Within(ctx, func(ctx context.Context) (err error) {
			list, err = compare(ctx, t, d.Read, cat, readings)
			return err
		})
	}
	return list, err
}

// compare is Plans by a catalogue. q is nil where there is no table yet.
func compare(ctx context.Context, t *table.Table, q db.Querier, cat *db.Catalog, readings []table.Reading) (list []Plan, err error) {
	text := t.DB().Text()
	for _, r := range readings {
		name, create := indexOf(t, cat, r)
		p := Plan{What: r.What, Bad: "no index serves its pages", Hint: create}
		serving := cat.Serving(r.Equal, r.Order)
		serves := func(x db.Index) bool { return x.Where == "" || x.Name == name }
		if i := slices.IndexFunc(cat.Indexes, func(x db.Index) bool { return x.Name == name }); i >= 0 {
			serving = cat.Indexes[i : i+1] // of the beginnings of texts, perhaps
		} else if q != nil && !slices.ContainsFunc(serving, serves) {
			if p.Steps, err = explained(ctx, text, q, r); err != nil {
				return nil, err
			}
			// Whether a partial index serves the database alone can tell.
			serves = func(x db.Index) bool { return strings.Contains(strings.Join(p.Steps, "\n"), x.Name) }
		}
		if i := slices.IndexFunc(serving, serves); i >= 0 {
			p.Index, p.Bad, p.Hint = serving[i].Name, "", ""
		}
		list = append(list, p)
	}
	return list, nil
}

// explained returns the plan of the page's query as the database has it.
func explained(ctx context.Context, text *db.Text, q db.Querier, r table.Reading) (steps []string, err error) {
	lines, err := db.Scanned(ctx, q, text.Explain+text.Place(r.Query), r.Args, func(rows *sql.Rows) (string, error) {
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
	plans, err := Plans(ctx, t, t.Readings(now))
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

// indexOf returns the name of the reading's index and the statement that creates it. The
// name tells what the index has, since two states, or two configurations, may need the
// very same. One that is left of a creation that failed, or that the planner is not to
// use, keeps its name.
func indexOf(t *table.Table, cat *db.Catalog, r table.Reading) (name, create string) {
	text, m := t.DB().Text(), t.Mapping()
	on := text.Qualified(cmp.Or(m.Schema, t.Catalog().Schema), m.Name)
	if text.File { // which has one schema
		on = text.Quote(m.Name)
	}
	if !text.PartialIndexes {
		r.Where = ""
	}
	for salt := ""; ; salt += "_" {
		sum := sha256.Sum256([]byte(text.Index(t.Catalog(), text.Quote(m.Name), salt, r.Columns, r.Where)))
		hash := fmt.Sprintf("_backlog_%x", sum[:4])
		name = strings.ToValidUTF8(m.Name[:min(len(m.Name), text.NameLength-len(hash))], "") + hash
		if !slices.ContainsFunc(cat.Indexes, func(x db.Index) bool { return x.Name == name && x.Hidden }) {
			return name, text.Index(t.Catalog(), on, name, r.Columns, r.Where)
		}
	}
}
