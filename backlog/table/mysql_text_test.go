package table_test

import (
	"encoding/json"
	"reflect"
	"slices"
	"testing"

	"backlog/backlog"
)

// TestMySQLColumns: what the driver gives reaches handlers without loss, and
// finds its row again.
func TestMySQLColumns(t *testing.T) {
	plain, rawURL := newMySQL(t)
	defer plain.Close()
	execMySQL(t, plain, "CREATE TABLE BACKLOG (id BIGINT UNSIGNED PRIMARY KEY, status ENUM('NEW','ERROR','SUCCESS') DEFAULT 'NEW', date_inserted DATETIME(3), "+
		"amount DECIMAL(30,4), f FLOAT, d DOUBLE, b BIT(1), bits BIT(12), j JSON, st SET('a','b'), day DATE, at TIMESTAMP(2) NULL, span TIME, y YEAR, bin BINARY(3), txt TEXT, tiny TINYINT(1), u BIGINT UNSIGNED)")
	execMySQL(t, plain, `INSERT INTO BACKLOG VALUES (18446744073709551615, 'NEW', '2026-02-10 11:00:00.25', '12345678901234567890123456.7890', 0.5, 0.1, b'1', b'101010101010', '{"a": [1, "x"]}', 'a,b',
		'2026-02-10', '2026-02-10 11:00:00.25', '-12:34:56', 2026, x'00ff01', 'ü', 1, 18446744073709551614), (7, 'NEW', '2026-02-10 10:00:00', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)`)
	s, err := proveMySQL(t, rawURL, plainMapping())
	if err != nil {
		t.Fatal(err)
	}
	records := pendingOf(t, s, 2)
	want := map[string]any{
		"id": "18446744073709551615", "status": "NEW", "date_inserted": "2026-02-10 11:00:00.250", "amount": "12345678901234567890123456.7890", "f": 0.5, "d": 0.1, "b": true, "bits": int64(0xaaa),
		"j": json.RawMessage(`{"a": [1, "x"]}`), "st": "a,b", "day": "2026-02-10", "at": "2026-02-10 11:00:00.25", "span": "-12:34:56", "y": int64(2026), "bin": []byte{0, 0xff, 1}, "txt": "ü",
		"tiny": int64(1), "u": "18446744073709551614",
	}
	for i, name := range records[0].Names {
		if got := records[0].Values[i]; !reflect.DeepEqual(got, want[name]) {
			t.Errorf("%s: got %#v, want %#v", name, got, want[name])
		}
		given := slices.Contains([]string{"id", "status", "date_inserted"}, name) // of the second row, too
		if !given && records[1].Values[i] != nil {
			t.Errorf("%s: got %#v, want nil", name, records[1].Values[i])
		}
	}
	row, ok, err := s.Find(t.Context(), records[0].Key, noon)
	if err != nil || !ok || row.Status != "NEW" {
		t.Errorf("Find: %v, %v, %v", row, ok, err)
	}
	key, err := s.ParseKey("18446744073709551615")
	if err != nil || !reflect.DeepEqual(key, records[0].Key) {
		t.Errorf("ParseKey: %v, %v", key, err)
	}
	if left, err := s.Settle(t.Context(), group(records)); len(left) > 0 || err != nil {
		t.Errorf("Settle: %v, %v", left, err)
	}
	pendingOf(t, s, 0)
}

// TestMySQLZeroDates are as missing as NULL, in columns of each type.
func TestMySQLZeroDates(t *testing.T) {
	for _, decl := range []string{"DATETIME", "DATETIME(6)", "TIMESTAMP", "DATE", "VARCHAR(30)"} {
		for _, zero := range []string{"", "newest", "oldest"} {
			plain, rawURL := newMySQL(t)
			plain.SetMaxOpenConns(1)
			execMySQL(t, plain, "SET sql_mode = ''")
			execMySQL(t, plain, "CREATE TABLE BACKLOG (id INT PRIMARY KEY, status VARCHAR(20) DEFAULT 'NEW', date_inserted "+decl+" NOT NULL DEFAULT '0000-00-00')")
			execMySQL(t, plain, "INSERT INTO BACKLOG (id, date_inserted) VALUES (1, DEFAULT), (2, '2026-02-10')")
			m := plainMapping()
			m.Inserted.Zero, m.Inserted.Keep = zero, true
			s, err := proveMySQL(t, rawURL, m)
			if err != nil {
				t.Fatal(decl, err)
			}
			records, unreadable := readAll(t, s, backlog.Query{Lane: backlog.Fresh, Limit: 1, Widest: true})
			wantKeys(t, decl+" "+zero, records, map[string]string{"": "2", "newest": "1 2", "oldest": "2 1"}[zero])
			if len(unreadable) > 0 {
				t.Errorf("%s: %v", decl, unreadable)
			}
			left, err := s.Settle(t.Context(), group(records))
			if len(left) > 0 || err != nil {
				t.Errorf("%s: settling: %v, %v", decl, left, err)
			}
			plain.Close()
		}
	}
}
