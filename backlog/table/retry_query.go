package table

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"backlog/backlog"
)

// retryQuery is pageQuery for the failed lane of a policy: one statement over
// the classes, each in the order of an index, which the database merges.
func (t *Table) retryQuery(q backlog.Query, p part, limit int) (string, []any) {
	var terms []string
	var args []any
	for i, b := range t.branches {
		if b.lane == backlog.Failed {
			list, a := t.retryTerms(q, p, i, t.retry.classes, limit)
			terms, args = append(terms, list...), append(args, a...)
		}
	}
	return t.merged(terms), append(args, limit)
}

// retryTerms are the parts that one branch has in it, each of limit rows at most
// where the database would read all of them.
func (t *Table) retryTerms(q backlog.Query, p part, branch int, classes []retryClass, limit int) (terms []string, args []any) {
	for _, c := range classes {
		b := t.branches[branch]
		conds, a := t.retryConditions(q, p, b, c)
		lead := slices.Concat(t.lead, b.lead)
		if c.cond != "" && !c.many {
			lead = append(lead, t.retry.count)
		}
		term := fmt.Sprintf("SELECT %s, %d, %s FROM %s WHERE %s", t.sel.aliased(), branch, t.orderColumns(), t.d.from(t, lead, t.retry.order().quoted), conds)
		args = append(args, a...)
		if !t.d.lazyUnion() {
			cols := distinct(append([]string{t.retry.order().quoted}, t.key...))
			term = fmt.Sprintf("SELECT * FROM (%s ORDER BY %s LIMIT ?) AS %sb%d_%d", term, strings.Join(cols, ", "), t.sel.prefix, branch, len(terms))
			args = append(args, limit)
		}
		terms = append(terms, term)
	}
	return terms, args
}

// merged returns one statement over the terms, in the order of the lane.
func (t *Table) merged(terms []string) string {
	names := make([]string, len(t.key)+1)
	for i := range names {
		names[i] = t.sel.orderAlias(i)
	}
	return strings.Join(terms, " UNION ALL ") + " ORDER BY " + strings.Join(names, ", ") + " LIMIT ?"
}

// orderColumns are those that the lane is ordered by, as they are: a planner
// does not follow an index by an expression.
func (t *Table) orderColumns() string {
	cols := make([]string, 0, len(t.key)+1)
	for i, c := range append([]string{t.retry.order().quoted}, t.key...) {
		cols = append(cols, c+" AS "+t.sel.orderAlias(i))
	}
	return strings.Join(cols, ", ")
}

func (s *selection) orderAlias(i int) string { return s.prefix + "o" + strconv.Itoa(i) }

func (t *Table) retryConditions(q backlog.Query, p part, b branch, c retryClass) (string, []any) {
	if t.retry.next == nil {
		// The class says how many failures there are, exactly; that there are
		// some would only tempt a planner to go through all of them.
		b.cond = strings.Join(append([]string{b.base}, nonEmpty(t.retry.within())...), " AND ")
	}
	conds := append(t.pending(b), nonEmpty(c.cond)...)
	var args []any
	add := func(cond string, a ...any) { conds, args = append(conds, cond), append(args, a...) }
	order := t.retry.order()
	within := isWithin(q.After, p.seg)
	if p.seg == segDated {
		switch {
		case p.ties:
			add(order.quoted+" = ?", q.After.Order)
		case within:
			add(order.quoted+" > ?", q.After.Order)
		case c.now:
			add(order.quoted + " IS NOT NULL")
		}
		if !c.now {
			add(t.until(order, q.Now.Add(-c.wait)))
		}
	} else {
		add(order.quoted + " IS NULL")
	}
	if within && (p.ties || p.seg != segDated) {
		op := ">"
		if q.After.Before {
			op = ">="
		}
		text, a := keyRange(op, t.key, q.After.Key)
		add(text, a...)
	}
	if isWithin(q.Until, p.seg) {
		op, cols, first := "<=", t.key, []any(nil)
		if q.Until.Before {
			op = "<"
		}
		if p.seg == segDated {
			cols, first = slices.Concat([]string{order.quoted}, t.key), []any{q.Until.Order}
		}
		text, a := keyRange(op, cols, q.Until.Key, first...)
		add(text, a...)
	}
	t.addAge(q, add)
	t.addTimely(q, add)
	return strings.Join(conds, " AND "), args
}

// until returns the condition for values of the column that stand for at or
// earlier, and perhaps some that are later by less than the form's step. The
// bound of most forms is the next whole step itself: what equals it would only
// use up pages.
func (t *Table) until(col *timeCol, at time.Time) (string, any) {
	form := t.writeForm(col)
	bound, op := form.upper(at), "<="
	if b, err := form.parse(bound); err == nil && b.After(at) {
		op = "<"
	}
	return col.quoted + " " + op + " ?", bound
}

// addAge adds the condition for the pass's ages.
func (t *Table) addAge(q backlog.Query, add func(string, ...any)) {
	var or []string
	var args []any
	if form := t.inserted.known(); form != nil {
		or, args = append(or, t.inserted.quoted+" >= ?"), append(args, t.writeForm(t.inserted).lower(q.Now.Add(-q.MaxAge)))
	}
	if t.hasSegment(segNewest, q.Widest) {
		or = append(or, t.missing("newest"))
	}
	if t.hasSegment(segOldest, q.Widest) {
		or = append(or, t.missing("oldest"))
	}
	if len(or) == 0 {
		or = []string{never} // no row has a date, or one just now, which cannot be read yet
	}
	// The order must come from the index that this has no part in.
	add(t.d.guard(strings.Join(or, " OR ")), args...)
}
