package table_test

import (
	"context"
	"maps"
	"strings"
	"testing"

	"backlog/backlog/mapping"
)

// The statuses that the configuration names are counted one by one on SQLite. The result must be that of one
// GROUP BY over all rows.
func TestCountByStatus(t *testing.T) {
	for _, c := range []struct {
		name, column string // the definition of the status column
		values       string // of the rows, in SQL
		new, success mapping.State
		where        []mapping.Condition
		want         map[string]int
	}{
		{"all configured", "TEXT", "'NEW', 'NEW', 'ERROR', 'SUCCESS'", mapping.Is("NEW"), mapping.Is("SUCCESS"), nil, map[string]int{"NEW": 2, "ERROR": 1, "SUCCESS": 1}},
		{"none", "TEXT", "", mapping.Is("NEW"), mapping.Is("SUCCESS"), nil, map[string]int{}},
		{"others", "TEXT", "'NEW', 'PAUSED', 'PAUSED', 'SUCCESS', '', NULL, NULL", mapping.Is("NEW"), mapping.Is("SUCCESS"), nil,
			map[string]int{"NEW": 1, "PAUSED": 2, "SUCCESS": 1, "": 1, "NULL": 2}},
		{"only others", "TEXT", "'PAUSED'", mapping.Is("NEW"), mapping.Is("SUCCESS"), nil, map[string]int{"PAUSED": 1}},
		{"several values", "TEXT", "'a', 'b', 'b', 'SUCCESS'", mapping.Is("a", "b"), mapping.Is("SUCCESS"), nil, map[string]int{"a": 1, "b": 2, "SUCCESS": 1}},
		{"many values", "TEXT", "'a', 'e', 'SUCCESS', 'x'", mapping.Is("a", "b", "c", "d", "e", "f"), mapping.Is("SUCCESS"), nil, map[string]int{"a": 1, "e": 1, "SUCCESS": 1, "x": 1}},
		{"numbers", "INTEGER", "0, 0, 2, 9", mapping.Is("0"), mapping.Is("2"), nil, map[string]int{"0": 2, "2": 1, "9": 1}},
		{"capitals", "TEXT COLLATE NOCASE", "'new', 'NEW', 'success', 'other'", mapping.Is("New"), mapping.Is("Success"), nil, map[string]int{"new": 2, "success": 1, "other": 1}},
		{"the same to the database", "TEXT COLLATE NOCASE", "'new', 'NEW', 'x', 'x'", mapping.Is("new", "NEW"), mapping.Is("SUCCESS"), nil, map[string]int{"new": 2, "x": 2}},
		{"NULL is new", "TEXT", "NULL, NULL, 'SUCCESS'", mapping.State{Values: []mapping.Value{{Null: true}}}, mapping.Is("SUCCESS"), nil, map[string]int{"NULL": 2, "SUCCESS": 1}},
		{"a filter", "TEXT", "'NEW', 'NEW', 'PAUSED', 'SUCCESS'", mapping.Is("NEW"), mapping.Is("SUCCESS"), []mapping.Condition{cond("id", text("1"), text("3"))},
			map[string]int{"NEW": 1, "PAUSED": 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFile(t, "CREATE TABLE jobs (id INTEGER PRIMARY KEY, status "+c.column+", at TEXT)")
			for value := range strings.SplitSeq(c.values, ", ") {
				if value != "" {
					f.exec("INSERT INTO jobs (status, at) VALUES (" + value + ", '2026-02-10 01:00:00')")
				}
			}
			failed := mapping.Is("ERROR")
			if c.column == "INTEGER" {
				failed = mapping.Is("1")
			}
			s := f.store(mapping.Mapping{
				Name: "jobs", ID: []string{"id"}, Status: "status", Inserted: mapping.Time{Column: "at"},
				New: c.new, Error: failed, Success: c.success, Where: c.where,
			})
			got, err := s.Count(context.Background(), noon, nil)
			if err != nil {
				t.Fatal(err)
			}
			folded := make(map[string]int) // which of two equal texts stands for both is left to the database
			for name, n := range got.ByStatus {
				if strings.Contains(c.column, "NOCASE") {
					name = strings.ToLower(name)
				}
				folded[name] += n
			}
			if !maps.Equal(folded, c.want) || len(folded) != len(got.ByStatus) {
				t.Errorf("got %v, want %v", got.ByStatus, c.want)
			}
		})
	}
}
