package table

import (
	"context"
	"errors"
	"strings"
)

// dotted adds to the error for a table that is not there what is to be written
// for one that was named with its schema, which is not divided at the dot: a name
// can have one in it.
func (db *DB) dotted(ctx context.Context, m Mapping, err error) error {
	p := (*Problem)(nil)
	schema, name, ok := strings.Cut(m.Name, ".")
	if !ok || m.Schema != "" || !errors.As(err, &p) {
		return err
	}
	if _, other := db.dialect.describe(ctx, db.read, schema, name); other != nil {
		return err
	}
	quoted := inYAML([]string{schema, name})
	return problem("write table: {schema: "+quoted[0]+", name: "+quoted[1]+"}", "there is no table %q, but a table %s in the schema %s", m.Name, name, schema)
}
