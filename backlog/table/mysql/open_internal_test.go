package mysql

import (
	"context"
	"database/sql/driver"
	"errors"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"backlog/backlog"
	"backlog/backlog/table/db"
	"backlog/internal/testkit"
)

// A mute server accepts connections but does not answer.
type mute struct{}

func (mute) Driver() driver.Driver { return nil }

func (mute) Connect(ctx context.Context) (driver.Conn, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// Connecting to a mute server fails earlier than a statement would, and the error names the server. A
// cancelled connection attempt ends at once.
func TestMute(t *testing.T) {
	for _, tt := range []struct {
		stop time.Duration
		want string
	}{
		{time.Hour, "the database is away: the MySQL server at db:3306 gives no answer within 10s; name host and port of a MySQL or MariaDB server in the database URL"},
		{time.Second, "the database is away: no connection to the MySQL server at db:3306 so far"},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(tt.stop, cancel)
			began := time.Now()
			_, err := connector{Connector: mute{}, addr: "db:3306"}.Connect(ctx)
			testkit.Equal(t, "time until the error", time.Since(began), min(tt.stop, db.DialTimeout))
			if err == nil {
				t.Fatalf("got no error, want %s", tt.want)
			}
			testkit.Equal(t, "error", err.Error(), tt.want)
			if !errors.Is(err, backlog.ErrUnavailable) {
				t.Errorf("want an error that says the database is unavailable, got %v", err)
			}
			time.Sleep(tt.stop)
		})
	}
}

// A number without a sign becomes one with a sign as far as that holds it, from 0 on.
func TestUnsignedValues(t *testing.T) {
	id, bits := &db.Column{Decl: "bigint unsigned", Class: db.Integer}, &db.Column{Decl: "bit(64)", Class: db.Integer}
	const largest = "\xff\xff\xff\xff\xff\xff\xff\xff"
	for _, c := range []struct {
		col         *db.Column
		value, want any
	}{
		{id, uint64(0), int64(0)},
		{id, []byte("0"), int64(0)},
		{id, uint64(math.MaxInt64), int64(math.MaxInt64)},
		{id, uint64(math.MaxInt64 + 1), "9223372036854775808"},
		{id, []byte("9223372036854775808"), "9223372036854775808"},
		{bits, []byte("\x00\x00\x00\x00\x00\x00\x00\x00"), int64(0)},
		{bits, []byte(largest), "18446744073709551615"},
	} {
		if got := new(server).Value(c.col, c.value); got != c.want {
			t.Errorf("%s %v: got %#v, want %#v", c.col.Decl, c.value, got, c.want)
		}
	}
}

// The smallest and the largest number of a type.
func TestRangeOf(t *testing.T) {
	for decl, want := range map[string][2]int64{
		"tinyint(4)": {-128, 127}, "tinyint unsigned": {0, 255}, "int": {math.MinInt32, math.MaxInt32}, "int(10) unsigned": {0, math.MaxUint32},
		"bigint": {0, 0}, "bigint unsigned": {0, math.MaxInt64}, "year": {1901, 2155}, "varchar(9)": {0, 0},
	} {
		if low, high := rangeOf(decl); low != want[0] || high != want[1] {
			t.Errorf("%s: %d to %d, want %d to %d", decl, low, high, want[0], want[1])
		}
	}
}
