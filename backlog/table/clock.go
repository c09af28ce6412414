package table

import (
	"context"
	"time"
)

// MostSkew is how far the clocks of this machine and of the server may be apart.
const MostSkew = 5 * time.Second

// Skew returns how far this machine's clock, which now reads, is ahead of the
// database server's, not counting the time that the answer took; 0 where there
// is no server.
func (db *DB) Skew(ctx context.Context, now func() time.Time) (ahead time.Duration, err error) {
	text := db.dialect.present()
	if text == "" {
		return 0, nil
	}
	ctx, cancel := context.WithTimeout(ctx, statementTimeout)
	defer cancel()
	err = db.patiently(ctx, func(ctx context.Context) error {
		before := now()
		var micros int64
		if err := db.read.QueryRowContext(ctx, "SELECT "+text).Scan(&micros); err != nil {
			return err
		}
		after, theirs := now(), time.UnixMicro(micros)
		switch {
		case theirs.Before(before):
			ahead = before.Sub(theirs)
		case theirs.After(after):
			ahead = after.Sub(theirs)
		default:
			ahead = 0
		}
		return nil
	})
	return ahead, db.wrap(ctx, err)
}
