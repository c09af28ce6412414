package table

import (
	"context"
	"fmt"
	"strings"
	"time"

	"backlog/backlog/inspect"
	"backlog/backlog/table/db"
	"backlog/backlog/table/timeform"
	"backlog/internal/lists"
)

// Count counts the rows at the time now, as [inspect.Counts] says. edges are the ages that
// separate the bands, ascending.
func (t *Table) Count(ctx context.Context, now time.Time, edges []time.Duration) (c inspect.Counts, err error) {
	c.Bands = make([]inspect.Band, len(edges))
	for _, col := range []*timeColumn{t.inserted, t.eligible, t.expires} {
		if err := t.discoverForm(ctx, col); err != nil {
			return c, err
		}
	}
	c.ByStatus, err = t.countByStatus(ctx)
	if err != nil {
		return c, err
	}
	for _, state := range t.states {
		retried, exhausted := t.retryConditions(state)
		if retried != "" {
			state.cond = retried
			if err := t.countState(ctx, state, now, edges, &c); err != nil {
				return c, err
			}
		}
		if exhausted != "" {
			n := 0
			text, args := selectQuery{columns: []string{"count(*)"}, from: t.name, where: t.recordsWith(exhausted)}.sql()
			if err := t.db.QueryOne(ctx, text, args, &n); err != nil {
				return c, err
			}
			c.Exhausted += n
		}
	}
	return c, nil
}

// countByStatus counts the rows by their status. If the database would sort all rows for that, it counts
// each configured status by itself, by its index if there is one, and groups only the other rows.
func (t *Table) countByStatus(ctx context.Context) (map[string]int, error) {
	if t.status == "" {
		return t.countBy(ctx, t.stateIndexExpr(t.stateLabel), "")
	}
	const most = 5 // counts of single statuses, each of which may read all rows
	status := t.text.AsStored(t.status)
	configured := t.statusConditions()
	if !t.text.SortsGroups || len(configured) == 0 || len(configured) > most {
		return t.countBy(ctx, status, "")
	}
	groups, err := db.QueryValues(ctx, t.db, t.countEach(status, configured), nil, 3)
	if err != nil {
		return nil, err
	}
	counts := make(map[string]int)
	others := 0
	for _, g := range groups {
		name, n := t.groupOf(g)
		isTotal, _ := db.AsCount(g[2])
		if isTotal == 1 {
			others += n
			continue
		}
		if counts[name] > 0 && n > 0 { // two of the configured statuses are the same one to the database
			return t.countBy(ctx, status, "")
		}
		if n > 0 {
			others -= n
			counts[name] = n
		}
	}
	if others > 0 {
		rest, err := t.countBy(ctx, status, "("+strings.Join(configured, " OR ")+") IS NOT TRUE")
		if err != nil {
			return nil, err
		}
		for name, n := range rest {
			counts[name] += n
		}
	}
	return counts, nil
}

// statusConditions returns a condition for each status that the configuration names.
func (t *layout) statusConditions() (list []string) {
	column := t.catalog.Find(t.m.Status, true)
	for _, state := range t.m.States() {
		values, _ := t.m.OfStatus(*state.State)
		for _, v := range values {
			value, err := column.Convert(v)
			if err == nil && value != nil { // NULL is equal to nothing
				list = append(list, t.status+" = "+t.text.Literal(value))
			}
		}
	}
	return lists.Distinct(list)
}

// countEach returns a query for the number of rows that meet each of the conditions, with the expression of one
// of them and 0, and for the number of all rows, with 1.
func (t *layout) countEach(expr string, conds []string) string {
	var texts []string
	add := func(expr, isTotal, cond string) {
		text, _ := selectQuery{columns: []string{expr, "count(*)", isTotal}, from: t.name, where: allOf(t.where.cond, cond)}.sql()
		texts = append(texts, text)
	}
	for _, cond := range conds {
		add(expr, "0", cond)
	}
	add("NULL", "1", "")
	return strings.Join(texts, " UNION ALL ")
}

// countBy counts the rows that meet a condition by the value of an expression, as text. NULL is "NULL".
func (t *Table) countBy(ctx context.Context, expr, cond string) (map[string]int, error) {
	text, args := selectQuery{columns: []string{expr, "count(*)"}, from: t.name, where: allOf(t.where.cond, cond), grouped: true}.sql()
	groups, err := db.QueryValues(ctx, t.db, text, args, 2)
	counts := make(map[string]int)
	for _, g := range groups {
		name, n := t.groupOf(g)
		counts[name] += n
	}
	return counts, err
}

// groupOf returns the name of a group of rows, which is its first value, and their number, its second value.
func (t *Table) groupOf(g []any) (name string, n int) {
	name = "NULL"
	if g[0] != nil {
		name = db.AsText(t.database.Value(nil, g[0]))
	}
	n, _ = db.AsCount(t.database.Value(nil, g[1]))
	return name, n
}

// bandExpr returns an SQL expression for the age band of a row: an index of edges, len(edges) for
// rows older than the last edge, or one of the negative numbers below.
func (t *layout) bandExpr(now time.Time, edges []time.Duration) (expr string, args []any) {
	expr = fmt.Sprintf("CASE WHEN %s THEN %d", never, bandUnreadable)
	add := func(band int, cond string, condArgs ...any) {
		if cond != "" {
			expr += fmt.Sprintf(" WHEN %s THEN %d", cond, band)
			args = append(args, condArgs...)
		}
	}
	for _, c := range t.times {
		if !c.onlyWritten {
			cond, condArgs := t.unreadableTimes(c)
			add(bandUnreadable, cond, condArgs...)
		}
	}
	t.addOwnTimes(now, add)
	if len(edges) > 0 {
		add(0, t.missingDate("newest"))
		add(len(edges)-1, t.missingDate("oldest"))
	}
	if form := t.inserted.knownForm(); form != nil {
		latest := now.Add(maxAhead)
		if t.mayBeFuture() {
			latest = timeform.End.Add(-1)
		}
		to := form.Split(latest.Add(1))
		for i := range len(edges) + 1 {
			from := form.Split(timeform.First)
			if i < len(edges) {
				from = form.Split(now.Add(-edges[i]))
			}
			older, below := t.beforeCut(t.inserted, to)
			younger, above := t.fromCut(t.inserted, from)
			add(i, younger+" AND "+older, append(above, below...)...)
			to = from
		}
	}
	return fmt.Sprintf("%s ELSE %d END", expr, bandUnreadable), args
}

// Bands of pending rows that no pass takes at their age.
const (
	bandUnreadable = -1 - iota
	bandExpired
	bandWaiting
)

// addOwnTimes adds the bands of rows that no pass takes now because of their own times: when they
// are eligible, and when they expire.
func (t *layout) addOwnTimes(now time.Time, add func(band int, cond string, args ...any)) {
	for _, c := range []*timeColumn{t.eligible, t.expires} {
		if c == nil || c == t.inserted {
			continue
		}
		if c.spec.Null == "skip" {
			add(bandUnreadable, c.quoted+" IS NULL")
		}
		if c.spec.Zero == "skip" {
			add(bandUnreadable, t.text.ZeroDate(c.column))
		}
	}
	if c := t.expires; c != nil && c.knownForm() != nil {
		cond, args := t.pastTimes(c, now)
		add(bandExpired, cond, args...)
	}
	if c := t.eligible; c != nil && c.knownForm() != nil {
		cond, args := t.fromCut(c, c.knownForm().Split(now.Add(1)))
		add(bandWaiting, cond, args...)
	}
}

// countState adds the rows in the state to the counts.
func (t *Table) countState(
	ctx context.Context, state pendingState, now time.Time, edges []time.Duration, c *inspect.Counts,
) error {
	number, numberArgs := t.bandExpr(now, edges)
	date := t.text.AsStored(t.inserted.quoted)
	if zero := t.text.ZeroDate(t.inserted.column); zero != "" {
		date = "CASE WHEN " + zero + " THEN NULL ELSE " + date + " END"
	}
	text, args := selectQuery{
		columns: []string{number, "count(*)", "min(" + date + ")"}, columnArgs: numberArgs,
		from: t.name, where: t.recordsWith(state.cond), grouped: true,
	}.sql()
	inNoBand := map[int]*int{bandUnreadable: &c.Unreadable, bandExpired: &c.Expired, bandWaiting: &c.Waiting}
	groups, err := db.QueryValues(ctx, t.db, text, args, 3)
	for _, g := range groups {
		at, _ := db.AsCount(t.database.Value(nil, g[0]))
		n, _ := db.AsCount(t.database.Value(nil, g[1]))
		if count := inNoBand[at]; count != nil {
			*count += n
			continue
		}
		var oldest time.Time
		if g[2] != nil {
			oldest, _ = t.inserted.knownForm().Parse(t.database.Value(t.inserted.column, g[2]))
		}
		band := &c.Beyond
		if at < len(edges) {
			band = &c.Bands[at]
		}
		band.Add(state.lane, n, oldest)
	}
	return err
}
