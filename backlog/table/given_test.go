package table_test

import (
	"slices"
	"testing"
)

func TestGiven(t *testing.T) {
	f := newFile(t, `CREATE TABLE BACKLOG (id INTEGER PRIMARY KEY, status TEXT, date_inserted TEXT, "send to" TEXT)`)
	m := plainMapping()
	for _, want := range [][]string{{"id", "status", "date_inserted", "send to"}, {"send to", "id"}} {
		if got := f.store(m).HandlerColumns(); !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
		m.Columns = []string{"send to", "id"}
	}
}
