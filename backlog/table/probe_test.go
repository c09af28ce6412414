package table_test

import (
	"errors"
	"testing"

	"backlog/backlog"
	"backlog/backlog/mapping"
	"backlog/backlog/table/sqlite"
)

// TestProbeOfAColumnThatIsGone: a store that runs says that its table has lost a column, of the
// mapping as of what handlers are given, and no pass takes the name of the column for its value.
func TestProbeOfAColumnThatIsGone(t *testing.T) {
	t.Parallel()
	onThreeDatabases(t, func(t *testing.T, d tableServer) {
		if d.name == "SQLite" && sqlite.Driver != "modernc.org/sqlite" {
			t.Skip("the driver cannot tell SQLite that a name in double quotes is no text")
		}
		d.exec(t, "CREATE TABLE lost (id BIGINT PRIMARY KEY, status VARCHAR(20), date_inserted VARCHAR(40), ends VARCHAR(40), payload VARCHAR(20))",
			"INSERT INTO lost VALUES (1, 'NEW', '2026-02-10 11:30:00', NULL, 'x')")
		m := plainMapping()
		m.Name, m.ID = "lost", []string{"id"}
		m.Expires = &mapping.Time{Column: "ends"}
		s := d.open(t, m)
		for _, column := range []string{"id", "status", "date_inserted", "ends", "payload"} {
			if err := s.Probe(t.Context()); err != nil {
				t.Fatalf("with each column: %v", err)
			}
			d.exec(t, "ALTER TABLE lost RENAME COLUMN "+column+" TO other")
			if err := s.Probe(t.Context()); err == nil || errors.Is(err, backlog.ErrUnavailable) {
				t.Errorf("without %s: %v, want an error that says which column is missing", column, err)
			}
			page, err := s.Pending(t.Context(), backlog.Query{Lane: backlog.Fresh, Now: noon, Since: noon.Add(-ages), Limit: 10})
			if err == nil {
				t.Errorf("without %s a pass reads %v", column, page.Records)
			}
			d.exec(t, "ALTER TABLE lost RENAME COLUMN other TO "+column)
		}
	})
}

// TestTriggersWithTextsInDoubleQuotes: SQLite takes such texts, and so does what writes.
func TestTriggersWithTextsInDoubleQuotes(t *testing.T) {
	f := newFile(t, `CREATE TABLE quoted (id INTEGER PRIMARY KEY, status TEXT DEFAULT "NEW", date_inserted TEXT);
		CREATE TABLE changes (what TEXT);
		CREATE TRIGGER changed AFTER UPDATE ON quoted BEGIN INSERT INTO changes VALUES ("changed"); END;
		INSERT INTO quoted (id, date_inserted) VALUES (1, '2026-02-10 11:30:00')`)
	d := tableServer{"SQLite", f.plain, "sqlite:" + f.path}
	m := plainMapping()
	m.Name, m.ID = "quoted", []string{"id"}
	handled, _ := passOver(t, d.open(t, m), &backlog.Engine{})
	if len(handled) != 1 {
		t.Errorf("a pass handles %q, want 1", handled)
	}
}
