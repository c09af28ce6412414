package table_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"backlog/backlog"
	"backlog/backlog/table"
)

// The file is taken away, and then another put in its place.
func TestDatabaseFileReplaced(t *testing.T) {
	ctx := context.Background()
	dir := t.TempDir()
	path, other := filepath.Join(dir, "a.db"), filepath.Join(dir, "b.db")
	for i, p := range []string{path, other} {
		db := openPlain(t, p)
		for _, s := range []string{
			`CREATE TABLE BACKLOG (id INTEGER PRIMARY KEY, status TEXT, date_inserted TEXT)`,
			`INSERT INTO BACKLOG SELECT value, 'NEW', '2026-02-10 11:00:00' FROM json_each('` + [2]string{"[1,2]", "[1,2,3]"}[i] + `')`,
		} {
			if _, err := db.Exec(s); err != nil {
				t.Fatal(err)
			}
		}
		db.Close()
	}
	db, err := table.Open(ctx, "sqlite:"+path, table.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	s, err := table.New(ctx, db, plainMapping())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Prove(ctx, noon); err != nil {
		t.Fatal(err)
	}
	pending := func() (int, error) {
		p, err := s.Pending(ctx, backlog.Query{Lane: backlog.Fresh, Now: noon, MaxAge: day, Limit: 10})
		return len(p.Records), err
	}
	if n, err := pending(); n != 2 || err != nil {
		t.Fatalf("%d records, %v; want 2", n, err)
	}
	if err := os.Rename(path, path+".old"); err != nil {
		t.Fatal(err)
	}
	if n, err := pending(); !errors.Is(err, backlog.ErrAway) {
		t.Errorf("without the file: %d records, %v; want %v", n, err, backlog.ErrAway)
	}
	if err := os.Rename(other, path); err != nil {
		t.Fatal(err)
	}
	if n, err := pending(); n != 3 || err != nil {
		t.Fatalf("with the other file: %d records, %v; want 3", n, err)
	}
	rec := &backlog.Record{Key: backlog.NewKey(int64(3)), Status: "NEW"}
	if left, err := s.Settle(ctx, []backlog.Settlement{{Record: rec, Outcome: backlog.Succeeded, At: noon}}); len(left) > 0 || err != nil {
		t.Fatalf("settling: %v, %v", left, err)
	}
	if n, err := pending(); n != 2 || err != nil {
		t.Errorf("after a success: %d records, %v; want 2", n, err)
	}
}
