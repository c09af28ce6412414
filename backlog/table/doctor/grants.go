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
	read := "" // all columns: the handler is given them
	if t.Mapping().Columns != nil {
		read = " (" + strings.Join(t.Read(), ", ") + ")"
	}
	return append(list, "GRANT SELECT"+read+", UPDATE ("+strings.Join(t.Written(), ", ")+") ON "+c.Grant+" TO "+c.User)
}
