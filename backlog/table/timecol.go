package table

import (
	"fmt"
	"sync/atomic"
	"time"
)

// A timeCol is a column that holds times, and the form in which it holds them
// once that is known.
type timeCol struct {
	name, quoted string
	setting      string // that has the long form for it; "" for those of others
	zone         *time.Location
	null, zero   string // "", skip, oldest, newest
	fixed        bool   // the form was given, not found out
	written      bool   // only written, never read
	form         atomic.Pointer[timeForm]
}

// column is the catalogue's.
func (c *timeCol) column(t *Table) *column { return t.catalog.find(c.name, true) }

func (c *timeCol) set(f timeForm) { c.form.Store(&f) }

// known returns the form, or nil while no row has shown it.
func (c *timeCol) known() *timeForm { return c.form.Load() }

// learn takes the form from raw values, if it is not known yet and they show
// one.
func (c *timeCol) learn(raws []any) error {
	if c.known() != nil {
		return nil
	}
	f, ok, err := detectTimeForm(raws, c.zone)
	if err != nil {
		return problem(c.cure(err), "column %s: %v", c.name, err)
	}
	if ok {
		c.set(f)
	}
	return nil
}

// Dates of insertion are believed from the first to before the last of these.
var (
	firstDate = time.Date(1990, 1, 1, 0, 0, 0, 0, time.UTC)
	endDate   = time.Date(2101, 1, 1, 0, 0, 0, 0, time.UTC)
)

const (
	futureMost = time.Hour // clocks differ; a zone mistaken for another is further off
)

// read returns the time of insertion that raw stands for, or why it cannot be
// one.
func (c *timeCol) read(raw any, now time.Time, future bool) (time.Time, error) {
	at, err := c.known().parse(raw)
	if err != nil {
		return time.Time{}, fmt.Errorf("column %s: %w", c.name, err)
	}
	if at.Before(firstDate) || !at.Before(endDate) {
		y := at.UTC().Year()
		return time.Time{}, fmt.Errorf("column %s: %v read as %v lies in the year %d: seconds taken for milliseconds, or the other way round?", c.name, raw, c.known(), y)
	}
	if ahead := at.Sub(now); ahead > futureMost && !future {
		return time.Time{}, fmt.Errorf("column %s: %v read as %v is %s ahead of the clock: is it written in another zone than %v?", c.name, raw, c.known(), roughly(ahead), c.zone)
	}
	return at, nil
}

// earliest is the bound below which no date is believed: a zero date, or what
// is no date at all, is not old.
func (c *timeCol) earliest() any {
	return c.known().lower(firstDate)
}
