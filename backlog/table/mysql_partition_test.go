package table_test

import (
	"backlog/backlog/table/doctor"
	"testing"

	"backlog/backlog"
)

// TestMySQLPartitionsOfThePast: that no partition has rows to be read now does not
// hide that there is no index for those to come.
func TestMySQLPartitionsOfThePast(t *testing.T) {
	plain, rawURL := newMySQL(t)
	defer plain.Close()
	execMySQL(t, plain, "CREATE TABLE BACKLOG (id INT, status VARCHAR(20) DEFAULT 'NEW', date_inserted DATETIME NOT NULL, PRIMARY KEY (id, date_inserted)) "+
		"PARTITION BY RANGE COLUMNS (date_inserted) (PARTITION a VALUES LESS THAN ('2025-01-01'), PARTITION b VALUES LESS THAN ('2026-01-01'))")
	execMySQL(t, plain, "INSERT INTO BACKLOG VALUES (1, 'NEW', '2025-02-10'), (2, 'NEW', '2024-02-10')")
	m := plainMapping()
	m.ID = []string{"id", "date_inserted"}
	s, err := proveMySQL(t, rawURL, m)
	if err != nil {
		t.Fatal(err)
	}
	missing, err := doctor.MissingIndexes(t.Context(), s, noon)
	if err != nil || len(missing) == 0 {
		t.Fatalf("without an index: %q is missing, %v", missing, err)
	}
	indexMySQL(t, plain, rawURL, m)
	if missing, err := doctor.MissingIndexes(t.Context(), s, noon); err != nil || len(missing) > 0 {
		t.Errorf("with the index: %q is missing, %v", missing, err)
	}
	wantGoodPlans(t, "partitions of the past", s)
}

// TestMySQLPartitions: whatever a table is divided by, each record is read once,
// in order, and settled. A key has all columns that partitions are made by.
func TestMySQLPartitions(t *testing.T) {
	const n, page = 300, 7
	plain, rawURL := newMySQL(t)
	defer plain.Close()
	for _, x := range []struct {
		decl, by string
		key      []string
	}{
		{
			decl: "DATETIME(3)",
			by:   "RANGE COLUMNS (date_inserted) (PARTITION a VALUES LESS THAN ('2026-02-10 11:00'), PARTITION b VALUES LESS THAN (MAXVALUE))",
			key:  []string{"id", "date_inserted"},
		},
		{
			decl: "DATETIME",
			by:   "RANGE (TO_DAYS(date_inserted)) (PARTITION a VALUES LESS THAN (TO_DAYS('2026-02-10')), PARTITION b VALUES LESS THAN (MAXVALUE))",
			key:  []string{"date_inserted", "id"},
		},
		{
			decl: "TIMESTAMP",
			by:   "RANGE (UNIX_TIMESTAMP(date_inserted)) (PARTITION a VALUES LESS THAN (UNIX_TIMESTAMP('2026-02-10 11:00:00')), PARTITION b VALUES LESS THAN (MAXVALUE))",
			key:  []string{"id", "date_inserted"},
		},
		{decl: "DATETIME", by: "KEY (id) PARTITIONS 5", key: []string{"id"}},
		{decl: "DATETIME", by: "HASH (id) PARTITIONS 5", key: []string{"id", "part"}},
		{decl: "DATETIME", by: "LIST COLUMNS (part) (PARTITION a VALUES IN ('a'), PARTITION b VALUES IN ('b', 'c'))", key: []string{"id", "part"}},
		{
			decl: "DATETIME",
			by:   "LIST COLUMNS (status) (PARTITION a VALUES IN ('NEW', 'ERROR'), PARTITION b VALUES IN ('SUCCESS', 'DEAD'))",
			key:  []string{"id", "status"},
		},
	} {
		key := ""
		for _, c := range x.key {
			key += ", " + c
		}
		execMySQL(t, plain, "CREATE TABLE BACKLOG (id INT, part VARCHAR(5) DEFAULT 'a', status VARCHAR(20) DEFAULT 'NEW', date_inserted "+x.decl+" NOT NULL DEFAULT '2000-01-01', PRIMARY KEY ("+key[2:]+")) PARTITION BY "+x.by)
		execMySQL(t, plain, "INSERT INTO BACKLOG SELECT seq, ELT(1 + seq % 3, 'a', 'b', 'c'), 'NEW', '2026-02-10 11:05:00' - INTERVAL (seq DIV 5) * 7 MINUTE FROM seq_1_to_300")
		m := plainMapping()
		m.ID = x.key
		for _, index := range []bool{false, true} {
			if index {
				indexMySQL(t, plain, rawURL, m)
			}
			s, err := proveMySQL(t, rawURL, m)
			if err != nil {
				t.Fatalf("%s: %v", x.by, err)
			}
			if index {
				wantGoodPlans(t, x.by, s)
			}
			for range 2 { // the first time that a statement is executed is not as the others
				records, unreadable := readAll(t, s, backlog.Query{Lane: backlog.Fresh, Limit: page})
				seen := make(map[string]bool)
				for i, r := range records {
					if i > 0 && r.Inserted.After(records[i-1].Inserted) {
						t.Errorf("%s: %v, of %v, comes after %v", x.by, r.Key, r.Inserted, records[i-1].Inserted)
					}
					seen[r.Key.String()] = true
				}
				if len(records) != n || len(seen) != n || len(unreadable) > 0 {
					t.Fatalf("%s: %d records, of which %d differ, and %v", x.by, len(records), len(seen), unreadable)
				}
			}
			records, _ := readAll(t, s, backlog.Query{Lane: backlog.Fresh, Limit: page})
			if left, err := s.Settle(t.Context(), group(records[:n/2])); len(left) > 0 || err != nil {
				t.Fatalf("%s: %d were left of %d, %v", x.by, len(left), n/2, err)
			}
			if records, _ := readAll(t, s, backlog.Query{Lane: backlog.Fresh, Limit: page}); len(records) != n/2 {
				t.Errorf("%s: %d records are left, want %d", x.by, len(records), n/2)
			}
			execMySQL(t, plain, "UPDATE BACKLOG SET status = 'NEW'")
		}
		execMySQL(t, plain, "DROP TABLE BACKLOG")
	}
}
