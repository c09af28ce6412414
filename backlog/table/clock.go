package table

import (
	"context"
	"fmt"
	"slices"
	"strings"
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

// proveZone looks for a column whose times are read in a zone that nobody has
// named, while others who write there are in another one: an hour west of it
// makes a new row an hour old. That is a note, or a *Problem where a row becomes
// dead for its age.
func (t *Table) proveZone(ctx context.Context) error {
	i := slices.IndexFunc(t.times, (*timeCol).isAssumed)
	if i < 0 {
		return nil
	}
	var zone string
	var utc bool
	err := t.within(ctx, func(ctx context.Context) (err error) {
		zone, utc, err = t.d.home(ctx, t.db.read)
		return err
	})
	if err != nil || utc {
		return err
	}
	yaml := "`timezone: " + zone + "`"
	if !strings.Contains(zone, "/") { // -05:00, EST
		yaml = "`timezone:` and the name of that zone, such as America/New_York,"
	}
	p := &Problem{
		What: fmt.Sprintf("column %s: %s has no zone and is read as %v, but the database is in the zone %s", t.times[i].name, t.times[i].column(t).decl, t.times[i].zone, zone),
		Cure: "write " + yaml + " if its times are written in that one, or `timezone: UTC` if they are in UTC",
	}
	if t.HasDead() {
		return p
	}
	t.note("%v", p)
	return nil
}
