package mysql

import (
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
