package table

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"backlog/backlog"
)

var _ backlog.Finder = (*Table)(nil)

// ParseKey returns the key that people write for a row: the bare value, or a
// JSON array of a composite key's. The columns' types decide what it becomes;
// BLOBs are base64. It is an error that the user can mend.
func (t *Table) ParseKey(text string) (backlog.Key, error) {
	parts := []string{text}
	if len(t.key) > 1 {
		var raw []json.RawMessage
		if err := json.Unmarshal([]byte(text), &raw); err != nil || len(raw) != len(t.key) {
			return backlog.Key{}, fmt.Errorf(`%q is not a key of %d columns: write a JSON array, such as '["a", 7]'`, text, len(t.key))
		}
		parts = parts[:0]
		for _, r := range raw {
			var s string
			if json.Unmarshal(r, &s) != nil || string(r) == "null" {
				s = string(r)
			}
			parts = append(parts, s)
		}
	}
	values := make([]any, len(parts))
	for i, p := range parts {
		v, err := keyPart(t.catalog.find(t.m.ID[i], true), p)
		if err != nil {
			return backlog.Key{}, err
		}
		values[i] = v
	}
	return backlog.NewKey(values...), nil
}

func keyPart(c *column, text string) (any, error) {
	switch c.class {
	case classInteger:
		n, err := strconv.ParseInt(text, 10, c.bits)
		if _, large := strconv.ParseUint(text, 10, 64); err != nil && c.unsigned && large == nil {
			return text, nil // as the store has it
		}
		if err != nil {
			if errors.Is(err, strconv.ErrRange) {
				return nil, fmt.Errorf("%q is larger or smaller than any number in column %s, which is %s", text, c.name, c.decl)
			}
			return nil, fmt.Errorf("%q is not a whole number, as column %s has", text, c.name)
		}
		return n, nil
	case classBlob:
		b, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			return nil, fmt.Errorf("%q is not base64, as which the BLOB column %s is written", text, c.name)
		}
		return b, nil
	case classText:
		return text, nil
	}
	if strings.Contains(strings.ToUpper(c.decl), "BLOB") {
		if b, err := base64.StdEncoding.DecodeString(text); err == nil {
			return b, nil
		}
	}
	if n, ok := parseNumber(text); ok {
		if f, isFloat := n.(float64); isFloat && c.class == classReal && strconv.FormatFloat(f, 'f', -1, 64) != text {
			return text, nil // a decimal, perhaps, that has more digits: the database knows
		}
		return n, nil
	}
	if f, err := strconv.ParseFloat(text, 64); c.class == classReal && err == nil {
		return f, nil // infinite, as keys are written
	}
	return text, nil
}

// Find implements backlog.Finder. The error is a [*KeyError] where the database
// cannot take the key for one of the table.
func (t *Table) Find(ctx context.Context, k backlog.Key, now time.Time) (row backlog.Row, ok bool, err error) {
	filter := always
	if t.where != "" {
		filter = t.d.guard(t.where)
	}
	text := fmt.Sprintf("SELECT %s, %s, CASE WHEN %s THEN 1 ELSE 0 END FROM %s WHERE %s",
		t.sel.aliased(), t.standingCase(), filter, t.name, t.d.keyIn(t.key, 1))
	err = t.within(ctx, func(ctx context.Context) error {
		raw := make([]any, len(t.sel.exprs))
		to := make([]any, 0, len(raw)+2)
		for i := range raw {
			to = append(to, &raw[i])
		}
		var standing, within int
		err := t.db.read.QueryRowContext(ctx, t.d.place(text), bind(nil, k)...).Scan(append(to, &standing, &within)...)
		if t.d.classify(err) == classRefused {
			return t.notAKey(k)
		}
		if err != nil {
			return err
		}
		for i, v := range raw {
			raw[i] = t.value(i, v)
		}
		row, ok = t.rowOf(raw, standing, now), true
		row.Filtered = within == 0
		return nil
	})
	return row, ok, err
}

// A KeyError says that no row can have the key, whatever the table holds.
type KeyError struct{ text string }

func (e *KeyError) Error() string { return e.text }

// notAKey is for keys that have a type of the database's own, which it alone can
// read.
func (t *Table) notAKey(k backlog.Key) error {
	types := make([]string, len(t.key))
	for i, name := range t.m.ID {
		c := t.catalog.find(name, true)
		types[i] = "column " + c.name + " is " + c.decl
	}
	return &KeyError{fmt.Sprintf("%q is not a key of table %s: %s", k, t.m.Name, strings.Join(types, ", "))}
}

// standingCase numbers the states: the branch of a pending row, or one of the
// ends behind them.
func (t *Table) standingCase() string {
	var b strings.Builder
	b.WriteString("CASE")
	for i, br := range t.branches {
		fmt.Fprintf(&b, " WHEN %s THEN %d", br.cond, i)
		if br.exhausted != "" {
			fmt.Fprintf(&b, " WHEN %s THEN %d", br.exhausted, i)
		}
	}
	for _, end := range []struct {
		cond string
		s    backlog.Standing
	}{{t.success, backlog.StandingSuccess}, {t.dead, backlog.StandingDead}} {
		if end.cond != "" {
			fmt.Fprintf(&b, " WHEN %s THEN %d", end.cond, len(t.branches)+int(end.s))
		}
	}
	fmt.Fprintf(&b, " ELSE %d END", len(t.branches)+int(backlog.StandingOther))
	return b.String()
}

func (t *Table) rowOf(raw []any, standing int, now time.Time) backlog.Row {
	row := backlog.Row{Standing: backlog.Standing(standing - len(t.branches))}
	branch := 0
	if standing < len(t.branches) {
		branch = standing
		row.Standing = backlog.StandingNew
		if t.branches[branch].lane == backlog.Failed {
			row.Standing = backlog.StandingError
		}
	}
	row.Believed = t.believed(raw, now)
	if row.Believed.After(now) {
		now = row.Believed
	}
	row.Unreadable = t.unreadable(raw, now)
	for _, x := range []struct {
		col *timeCol
		at  int
		to  *time.Time
	}{{t.eligible, t.sel.eligible, &row.Eligible}, {t.expires, t.sel.expires, &row.Expires}} {
		if x.col != nil && x.col.known() != nil && raw[x.at] != nil && !isZeroDate(raw[x.at]) {
			*x.to, _ = x.col.known().parse(raw[x.at])
		}
	}
	if v := raw[t.sel.inserted]; v == nil {
		row.NoDate = t.inserted.null
	} else if isZeroDate(v) {
		row.NoDate = t.inserted.zero
	}
	if row.NoDate == "" {
		row.NoDate = "skip"
	}
	row.NoStatus = t.sel.status >= 0 && raw[t.sel.status] == nil
	row.Record = t.recordOf(raw, branch)
	if t.sel.status < 0 {
		row.Status = row.Standing.String()
	}
	return row
}

// believed returns when the row's date of insertion will no longer be too far
// ahead of the clock, zero if it is not.
func (t *Table) believed(raw []any, now time.Time) (none time.Time) {
	v := raw[t.sel.inserted]
	if v == nil || isZeroDate(v) || t.inserted.known() == nil || t.mayBeFuture() {
		return none
	}
	at, err := t.inserted.known().parse(v)
	if err != nil || at.Sub(now) <= futureMost {
		return none
	}
	return at.Add(-futureMost)
}

// unreadable returns why a pass would pass the row over.
func (t *Table) unreadable(raw []any, now time.Time) error {
	if v := raw[t.sel.inserted]; v != nil && !isZeroDate(v) && t.inserted.known() != nil {
		if _, err := t.inserted.read(v, now, t.mayBeFuture()); err != nil {
			return err
		}
	}
	for _, x := range []struct {
		col *timeCol
		at  int
	}{{t.eligible, t.sel.eligible}, {t.expires, t.sel.expires}} {
		if x.col == nil {
			continue
		}
		zero := isZeroDate(raw[x.at])
		if raw[x.at] == nil && x.col.null == "skip" || zero && x.col.zero == "skip" {
			return fmt.Errorf("column %s has no date, and such records are to be skipped", x.col.name)
		}
		if raw[x.at] == nil || zero || x.col.known() == nil {
			continue
		}
		if _, err := x.col.known().parse(raw[x.at]); err != nil {
			return fmt.Errorf("column %s: %w", x.col.name, err)
		}
	}
	if t.retry != nil {
		if _, err := t.retry.read(raw); err != nil {
			return err
		}
	}
	return nil
}

// EachPending calls f with every pending row, whatever its age and whether it
// is due, in the order of the keys. f must not keep the record's values.
func (t *Table) EachPending(ctx context.Context, now time.Time, f func(backlog.Row)) error {
	for i, b := range t.branches {
		var last backlog.Key
		for {
			var rows [][]any
			err := t.within(ctx, func(ctx context.Context) (err error) {
				rows, err = t.rowsByKey(ctx, t.pending(b), nil, last)
				return err
			})
			if err != nil {
				return err
			}
			for _, raw := range rows {
				last = t.keyOf(raw)
				f(t.rowOf(raw, i, now))
			}
			if len(rows) < backlog.MaxGroup {
				break
			}
		}
	}
	return nil
}
