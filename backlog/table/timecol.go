package table

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

// A timeCol is a column that holds times, and the form in which it holds them
// once that is known.
type timeCol struct {
	name, quoted string
	setting      string // that has the long form for it; "" for those of others
	zone         *time.Location
	assumed      bool   // nobody has named the zone
	null, zero   string // "", skip, oldest, newest
	fixed        bool   // the form was given, not found out
	written      bool   // only written, never read
	most         int64  // of the numbers that it can hold; 0: any
	form         atomic.Pointer[timeForm]
}

// column is the catalogue's.
func (c *timeCol) column(t *Table) *column { return t.catalog.find(c.name, true) }

// sample returns a value as something to tell a form by: a decimal is kept as
// text so that no digit is lost, but it is no text.
func (c *timeCol) sample(t *Table, v any) any {
	if s, ok := v.(string); ok && c.column(t).class == classReal {
		if f, ok := parseDecimal(s); ok {
			return f
		}
	}
	return v
}

func (c *timeCol) set(f timeForm) {
	if u, ok := f.timeCodec.(timeUnix); ok {
		u.most = c.most
		f = timeForm{u}
	}
	c.form.Store(&f)
}

// known returns the form, or nil while no row has shown it.
func (c *timeCol) known() *timeForm { return c.form.Load() }

// isAssumed reports whether the times that are read from the column are of a type
// without zone, and nobody has said which it is.
func (c *timeCol) isAssumed() bool {
	if !c.assumed || c.written || c.known() == nil {
		return false
	}
	f, ok := c.known().timeCodec.(timeCalendar)
	return ok && f.decl != "" && f.suffix == "" && !f.moment
}

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
		if text, ok := raw.(string); ok && strings.HasSuffix(text, "infinity") { // PostgreSQL's, also -infinity
			return time.Time{}, fmt.Errorf("column %s: %s is no date of an insertion", c.name, text)
		}
		question := ""
		if _, ok := c.known().timeCodec.(timeUnix); ok {
			question = ": seconds taken for milliseconds, or the other way round?"
		}
		return time.Time{}, fmt.Errorf("column %s: %v read as %v lies in the year %d%s", c.name, raw, c.known(), at.UTC().Year(), question)
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

// writeForm returns the form in which a time is written to the column: its
// own, as its rows show it, else that of the column of insertion if it suits.
func (t *Table) writeForm(c *timeCol) timeForm {
	if f := c.known(); f != nil {
		return *f
	}
	if f := t.inserted.known(); f != nil && t.suits(*f, c) {
		return *f
	}
	if t.inserted.known() == nil && slices.Contains([]class{classInteger, classReal}, c.column(t).class) {
		return timeForm{timeUnits[0]} // for the proof: rows come before settlements
	}
	return defaultTimeForm(c.zone)
}

// defaultTimeForm is that of SQL's CURRENT_TIMESTAMP, in the column's zone.
func defaultTimeForm(zone *time.Location) timeForm {
	f, err := parseTimeForm("text:2006-01-02 15:04:05", zone)
	if err != nil {
		panic(err) // a constant layout
	}
	return f
}
