package table_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"backlog/backlog"
	"backlog/backlog/mapping"
)

// TestSnoozeAmongForms: a snooze is written over an earlier time that sorts above it, as a text with a T does
// above one with a space, and an empty text above numbers. A later time that another program has written stays
// although it sorts below.
func TestSnoozeAmongForms(t *testing.T) {
	const (
		hourAgo  = "2026-02-10 11:00:00"
		snoozed  = "2026-02-10 13:00:00"
		twoLater = "2026-02-10 14:00:00"
	)
	type testCase struct {
		decl, others, read string // what the others have, and this row when it is read
		written            string // by another program, while the handler runs; "": nothing
		want               string
	}
	quote := func(text string) string { return "'" + text + "'" }
	texts := []testCase{
		{"VARCHAR(40)", hourAgo, "2026-02-10T11:00:00", "", snoozed},
		{"VARCHAR(40)", "2026-02-10 11:00:00.5", "2026-02-10T11:00:00", "", snoozed},
		{"VARCHAR(40)", "2026-02-10 11:00Z", "2026-02-10T11:00Z", "", "2026-02-10 13:00Z"},
		{"VARCHAR(40)", "2026-02-10T11:00:00", "2026-02-10T11:00:00", twoLater, twoLater},
		{"VARCHAR(40)", hourAgo, hourAgo, "2026-02-10T12:30:00", snoozed},
		{"VARCHAR(40)", hourAgo, hourAgo, "2026-02-10T14:00:00", "2026-02-10T14:00:00"},
	}
	noonSeconds := noon.Unix()
	numbers := []testCase{
		{"INTEGER", fmt.Sprint(noonSeconds - 3600), "", "", fmt.Sprint(noonSeconds + 3600)},
		{"DATETIME", fmt.Sprint(noonSeconds - 3600), "0000-00-00", "", fmt.Sprint(noonSeconds + 3600)},
		{"INTEGER", fmt.Sprint(noonSeconds - 3600), "", fmt.Sprint(noonSeconds + 7200), fmt.Sprint(noonSeconds + 7200)},
	}
	onThreeDatabases(t, func(t *testing.T, d tableServer) {
		list := texts
		if d.name == "SQLite" {
			list = slices.Concat(texts, numbers)
		}
		for i, tt := range list {
			name := fmt.Sprintf("snooze_%d", i)
			d.exec(t, "CREATE TABLE "+name+" (id INTEGER PRIMARY KEY, status VARCHAR(9), created VARCHAR(40), run_at "+tt.decl+")")
			for id := range 9 {
				value := tt.others
				if id == 7 {
					value = tt.read
				}
				d.exec(t, fmt.Sprintf("INSERT INTO %s VALUES (%d, 'NEW', '2026-02-10 10:00:00', %s)", name, id, quote(value)))
			}
			m := jobs()
			m.Name = name
			m.Eligible = &mapping.Time{Column: "run_at"}
			store := d.open(t, m)
			records, _ := readAll(t, store, backlog.Query{Lane: backlog.Fresh, Limit: 99, Now: noon, Since: noon.Add(-ages)})
			row := slices.IndexFunc(records, func(r backlog.Record) bool { return r.Key.String() == "7" })
			if row < 0 {
				t.Fatalf("%s: %+v: the row is not among the %d pending ones", d.name, tt, len(records))
			}
			if tt.written != "" {
				d.exec(t, "UPDATE "+name+" SET run_at = "+quote(tt.written)+" WHERE id = 7")
			}
			unsettled, err := store.Settle(t.Context(), []backlog.Settlement{{Record: &records[row], Target: backlog.RowOther, At: noon, Until: noon.Add(time.Hour)}})
			var got string
			text := "run_at"
			if d.name == "SQLite" {
				text = "CAST(run_at AS TEXT)" // the driver in C makes a time of a DATETIME
			}
			if err := d.plain.QueryRow("SELECT " + text + " FROM " + name + " WHERE id = 7").Scan(&got); err != nil {
				t.Fatal(err)
			}
			if err != nil || len(unsettled) != 0 || got != tt.want {
				t.Errorf("%s: %+v: got %q, %v, %v", d.name, tt, got, unsettled, err)
			}
		}
	})
}
