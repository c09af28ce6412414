package table

import (
	"context"
	"slices"
	"strings"
	"time"
)

// Grants returns the statements that give the user of the connection the rights
// that passes take, and no others; none where the database knows no users.
func (t *Table) Grants(ctx context.Context) (list []string, err error) {
	err = t.within(ctx, func(ctx context.Context) error {
		on, to, err := t.d.grantee(ctx, t.db.read, t)
		if err != nil || to == "" {
			return err
		}
		list = nil
		if t.m.Schema != "" && t.d.schemaRights() {
			list = append(list, "GRANT USAGE ON SCHEMA "+t.d.quote(t.m.Schema)+" TO "+to)
		}
		list = append(list, "GRANT SELECT"+t.readColumns()+", UPDATE ("+strings.Join(t.writtenColumns(), ", ")+") ON "+on+" TO "+to)
		return nil
	})
	return list, err
}

// readColumns returns the columns that passes read, in brackets, or nothing if
// the handler is given all there are.
func (t *Table) readColumns() string {
	if t.m.Columns == nil {
		return ""
	}
	conditions := []string{t.where, t.success, t.dead}
	for _, b := range t.branches {
		conditions = append(conditions, b.cond)
	}
	named := t.writtenColumns()
	for _, c := range t.sel.columns {
		named = append(named, t.d.quote(c.name))
	}
	var names []string
	for i := range t.catalog.columns {
		name := t.d.quote(t.catalog.columns[i].name)
		if slices.Contains(named, name) || slices.ContainsFunc(conditions, func(c string) bool { return strings.Contains(c, name) }) {
			names = append(names, name)
		}
	}
	return " (" + strings.Join(names, ", ") + ")"
}

// writtenColumns returns the quoted columns that passes write.
func (t *Table) writtenColumns() (names []string) {
	add := func(list []assign) {
		for _, a := range list {
			if !slices.Contains(names, a.col) {
				names = append(names, a.col)
			}
		}
	}
	for _, w := range t.trialWrites(time.Time{}) {
		add(w.assigns)
	}
	add(t.expireSet)
	return names
}
