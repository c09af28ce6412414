package doctor

import (
	"strings"

	"backlog/backlog/table"
)

// Grants returns the statements that give the user of the connection the rights
// that passes take, and no others; none where the database knows no users.
func Grants(t *table.Table) (list []string) {
	c, text := t.Catalog(), t.DB().Text()
	if c.User == "" {
		return nil
	}
	if schema := t.Mapping().Schema; schema != "" && text.GrantsUsage {
		list = append(list, "GRANT USAGE ON SCHEMA "+text.Quote(schema)+" TO "+c.User)
	}
	written, read := t.Rights()
	return append(list, "GRANT SELECT"+read+", UPDATE ("+strings.Join(written, ", ")+") ON "+c.Grant+" TO "+c.User)
}
