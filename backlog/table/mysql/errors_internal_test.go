package mysql

import (
	"database/sql/driver"
	"errors"
	"testing"

	mysqldriver "github.com/go-sql-driver/mysql"

	"backlog/backlog/table/db"
)

// With these errors a server refuses writes while it answers reads. The numbers and texts are from
// MariaDB.
func TestNoWrites(t *testing.T) {
	for _, e := range []*mysqldriver.MySQLError{
		{Number: 1290, Message: "The MariaDB server is running with the --read-only option so it cannot execute this statement"},
		{Number: 1792, Message: "Cannot execute statement in a READ ONLY transaction"},
		{Number: 1021, Message: "Disk full (./shop/#sql); waiting for someone to free some space..."},
		{Number: 1030, Message: `Got error 28 "No space left on device" from storage engine InnoDB`},
		{Number: 1026, Message: `Error writing file './shop/orders.MYD' (errno: 28 "No space left on device")`},
	} {
		if f := new(server).Classify(e); f.Class != db.Unavailable || !f.NoWrites {
			t.Errorf("%v: want a database that takes no writes, got %+v", e, f)
		}
	}
	for _, e := range []*mysqldriver.MySQLError{
		{Number: 1205, Message: "Lock wait timeout exceeded; try restarting transaction"},
		{Number: 1030, Message: `Got error 127 "Record file is crashed" from storage engine MyISAM`},
		{Number: 1040, Message: "Too many connections"},
	} {
		if f := new(server).Classify(e); f.NoWrites {
			t.Errorf("%v: want another meaning, got %+v", e, f)
		}
	}
}

// A trigger refuses a row by SIGNAL, whatever SQLSTATE and number it gives.
func TestSignalRefusesARow(t *testing.T) {
	for _, e := range []*mysqldriver.MySQLError{
		{Number: 1644, SQLState: [5]byte([]byte("45000")), Message: "not this one"},
		{Number: 1644, SQLState: [5]byte([]byte("HY000")), Message: "not this one"},
		{Number: 31001, SQLState: [5]byte([]byte("45000")), Message: "not this one"},
	} {
		f := new(server).Classify(e)
		if f.Class != db.Refused || f.Guard != db.Trigger || f.Name != "not this one" {
			t.Errorf("%v: want a row that a trigger refuses, got %+v", e, f)
		}
	}
}

// A COMMIT that cannot be sent fails with a text of the driver, for which it has no error value. Found where
// the write of COMMIT to the connection failed.
func TestBadConnection(t *testing.T) {
	for _, e := range []error{errors.New("bad connection"), driver.ErrBadConn} {
		if f := new(server).Classify(e); f.Class != db.Unavailable {
			t.Errorf("%v: want a database that is unavailable, got %+v", e, f)
		}
	}
}
