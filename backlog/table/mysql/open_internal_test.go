package mysql

import (
	"context"
	"database/sql/driver"
	"errors"
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
