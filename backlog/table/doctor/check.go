package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"backlog/backlog"
	"backlog/backlog/inspect"
	"backlog/backlog/mapping"
	"backlog/backlog/table"
	"backlog/backlog/table/db"
	"backlog/internal/lists"
)

// AddFailure adds an error to the findings, or each of several, and reports whether there was one. The
// cure is the hint of the error, or else the text behind its first semicolon.
func AddFailure(l *inspect.Findings, name string, err error) bool {
	if err == nil {
		return false
	}
	if all := (*db.Problems)(nil); errors.As(err, &all) {
		for _, err := range all.List {
			AddFailure(l, name, err)
		}
		return true
	}
	f := inspect.Finding{Name: name}
	if p := (*db.Problem)(nil); errors.As(err, &p) {
		f.Detail = strings.Replace(err.Error(), "; "+p.Hint, "", 1)
		f.Cure = p.Hint
	} else if f.Detail = err.Error(); !strings.Contains(f.Detail, "\n") {
		f.Detail, f.Cure, _ = strings.Cut(f.Detail, "; ")
	}
	f.Detail = strings.TrimPrefix(f.Detail, name+": ") // the name of the finding says it
	if !slices.Contains(*l, f) {
		*l = append(*l, f)
	}
	return true
}

// A ReadCheck is a check of what is only read.
type ReadCheck struct {
	Table      *table.Table
	Mapping    mapping.Mapping         // as it is configured
	Ages       []time.Duration         // of the tiers, ascending
	RuleColumn string                  // the column of each row's recurrence rule; "": none
	CheckRule  func(text string) error // returns what is wrong with a recurrence rule
	Now        time.Time
}

// CheckReads finds what is wrong with reading a table: its times, indexes, statuses, dates and rules. It
// returns a text about the rows that no pass takes because of their status, for [CheckTrial].
func CheckReads(ctx context.Context, l *inspect.Findings, x ReadCheck) (leftAlone string) {
	if !AddFailure(l, "times", x.Table.ProveTimes(ctx, x.Now)) {
		samples, err := Samples(ctx, x.Table, x.Now)
		if !AddFailure(l, "times", err) {
			l.AddGood("times", "%s", strings.Join(append(x.Table.TimeForms(), samples...), "\n"))
		}
	}
	checkPlans(ctx, l, x.Table, x.Now)
	leftAlone = checkRecords(ctx, l, x)
	if x.RuleColumn != "" {
		checkRules(ctx, l, x)
	}
	return leftAlone
}

// checkRecords counts the records. It returns a text about those whose status is rightly left alone.
func checkRecords(ctx context.Context, l *inspect.Findings, x ReadCheck) (leftAlone string) {
	c, err := x.Table.Count(ctx, x.Now, x.Ages)
	if AddFailure(l, "records", err) {
		return ""
	}
	leftAlone = checkStatuses(l, x.Mapping, c)
	beyond := c.Beyond.Fresh + c.Beyond.Failed
	l.AddGood("records", "%d pending, %d of them older than every tier", c.Pending(), beyond)
	if beyond > 0 && beyond == c.Pending() {
		l.AddWarning("records", "if rows come in that are young, look at the zone: `timezone:`, or `zone:` of the column", "the newest of them is older than every tier: none is tried")
	}
	if c.Exhausted > 0 {
		l.AddGood("records", "%d out of retries besides", c.Exhausted)
	}
	if c.Unreadable > 0 {
		checkDates(ctx, l, x, c.Unreadable)
	}
	return leftAlone
}

// CheckHandler adds what the handler reports about itself and about what it needs, such as a network.
func CheckHandler(ctx context.Context, l *inspect.Findings, name string, h backlog.ConfiguredHandler) {
	if AddFailure(l, name, h.Check(ctx)) {
		return
	}
	said := h.Describe()
	l.AddGood(name, "%s", said.Checked)
	for _, note := range said.Notes {
		what, cure, _ := strings.Cut(note, "; ")
		l.AddWarning(name, cure, "%s", what)
	}
}

// AddNotes adds the notes of the table, each once.
func AddNotes(l *inspect.Findings, t *table.Table) {
	for _, n := range t.Notes() {
		note := inspect.Finding{Name: "note", OK: true, Warning: true, Detail: n}
		if !slices.Contains(*l, note) {
			*l = append(*l, note)
		}
	}
}

// checkPlans adds whether an index serves each query for a page.
func checkPlans(ctx context.Context, l *inspect.Findings, t *table.Table, now time.Time) {
	plans, err := QueryPlans(ctx, t, t.PassQueries(now))
	if AddFailure(l, "index", err) {
		return
	}
	for i, p := range plans {
		switch {
		case p.Problem != "":
			l.AddWarning("index", "`backlog init`, or: "+p.Hint, "%s: %s\nby this plan: %s", p.What, p.Problem, strings.Join(p.Steps, "; "))
		case p.Index == "":
			l.AddGood("index", "%s: served by the key", p.What)
		case i > 0 && p.What == plans[i-1].What && plans[i-1].Problem == "":
			(*l)[len(*l)-1].Detail += " and " + p.Index
		default:
			l.AddGood("index", "%s: served by the index %s", p.What, p.Index)
		}
	}
}

// checkRules checks the recurrence rules of rows: a row with an invalid rule is not started.
func checkRules(ctx context.Context, l *inspect.Findings, x ReadCheck) {
	list, err := x.Table.Rules(ctx, x.RuleColumn)
	AddFailure(l, "rules", err)
	var bad []string
	for _, text := range list {
		if err := x.CheckRule(text); err != nil {
			bad = append(bad, fmt.Sprintf("%s: %v", inspect.Shown(text), err))
		}
	}
	if len(bad) > 0 {
		l.AddWarning("rules", "mend them: such a row is not started", "%s of the %d looked at cannot be read; the first: %s", inspect.Plural(len(bad), "rule"), len(list), bad[0])
	}
}

// checkDates finds pending rows without a date or with an implausible one. counted is how many there are.
func checkDates(ctx context.Context, l *inspect.Findings, x ReadCheck, counted int) {
	var n int
	var first error
	var after backlog.Cursor
	for {
		page, err := x.Table.List(ctx, table.Filter{State: "unreadable", Ages: x.Ages}, x.Now, after, 1000)
		if AddFailure(l, "dates", err) {
			return
		}
		for _, row := range page.Rows {
			if row.Unreadable != nil {
				n++
				first = cmp.Or(first, row.Unreadable)
			}
		}
		after = page.Next
		if after.IsZero() {
			break
		}
	}
	if undated := counted - n; undated > 0 {
		l.AddWarning("dates", "give them one, or say what a missing one means: table.inserted: {column: …, \"null\": oldest, zero: oldest}",
			"%s without a date: never tried", inspect.Plural(undated, "pending row"))
	}
	if n > 0 {
		l.AddWarning("dates", "mend the rows", "%s whose date cannot be right: not tried while that is so; the first: %v", inspect.Plural(n, "pending row"), first)
	}
}

// checkStatuses warns about rows that no pass takes because of their status, and about which passes say
// nothing: if no row has a configured status, or if a status differs from a configured one in case or
// spaces only. It returns a text about the other statuses, which are rightly left alone.
func checkStatuses(l *inspect.Findings, m mapping.Mapping, c inspect.Counts) (leftAlone string) {
	configured := m.StatusTexts(m.New, m.Error, m.Success, m.Dead)
	if len(configured) == 0 || len(c.ByStatus) == 0 {
		return ""
	}
	known := func(text string) bool { return slices.Contains(configured, text) }
	has := slices.SortedFunc(maps.Keys(c.ByStatus), func(a, b string) int {
		return cmp.Or(cmp.Compare(c.ByStatus[b], c.ByStatus[a]), cmp.Compare(a, b))
	})
	if c.Pending()+c.Exhausted == 0 && !slices.ContainsFunc(has, known) {
		l.AddWarning("statuses", "write under statuses: what the table has; capitals count", "no row has a status of the configuration, which names %s; the table has %s",
			strings.Join(lists.Map(configured, inspect.Shown), ", "), countedList(has, c.ByStatus))
		return ""
	}
	pending := m.StatusTexts(m.New, m.Error)
	var taken int
	for _, text := range pending {
		taken += c.ByStatus[text]
	}
	if taken != c.Pending()+c.Exhausted {
		return "" // the database compares texts in another way, such as without regard to case
	}
	var others []string
	for _, text := range has {
		like := func(value string) bool { return strings.EqualFold(strings.TrimSpace(text), value) }
		if i := slices.IndexFunc(pending, like); i >= 0 && !known(text) {
			l.AddWarning("statuses", "write under statuses: what the table has, or mend the rows", "%s with the status %q, which differs from %s in capitals or spaces only: never tried",
				inspect.Plural(c.ByStatus[text], "row"), text, inspect.Shown(pending[i]))
		} else if !slices.ContainsFunc(configured, like) {
			others = append(others, text)
		}
	}
	warnOfDefaults(l, m, c, others)
	for _, text := range m.StatusTexts(m.New) {
		if near := mapping.Near(text, others); near != "" && c.ByStatus[text] == 0 {
			l.AddWarning("statuses", "write under statuses: what the table has", "statuses.new: no row has %s; the table has %s: is that meant?", inspect.Shown(text), countedList([]string{near}, c.ByStatus))
		}
	}
	return db.Prefixed("; left alone: ", countedList(others, c.ByStatus))
}

// warnOfDefaults warns about a status that the configuration leaves out and no row has, if the configuration has
// words of its own for others and the table has statuses that it does not name: one of these may be meant.
func warnOfDefaults(l *inspect.Findings, m mapping.Mapping, c inspect.Counts, others []string) {
	if !m.New.Explicit || len(others) == 0 {
		return
	}
	for _, s := range []struct {
		setting string
		state   mapping.State
	}{{"error", m.Error}, {"success", m.Success}} {
		texts := m.StatusTexts(s.state)
		if s.state.Explicit || len(texts) == 0 || c.ByStatus[texts[0]] > 0 {
			continue
		}
		l.AddWarning("statuses", "write statuses."+s.setting, "statuses.%s is not set, so that passes write %s, which no row has; the table has %s: is one of these meant?",
			s.setting, inspect.Shown(texts[0]), countedList(others, c.ByStatus))
	}
}

// countedList returns the first few of the statuses, with their counts.
func countedList(list []string, counts map[string]int) string {
	const most = 5
	var more string
	if len(list) > most {
		more = fmt.Sprintf(" and %d more", len(list)-most)
		list = list[:most]
	}
	counted := lists.Map(list, func(s string) string { return fmt.Sprintf("%s (%d)", inspect.Shown(s), counts[s]) })
	return strings.Join(counted, ", ") + more
}

// A WriteCheck is a check of what writes to a table. The Table must be open for writing.
type WriteCheck struct {
	Table *table.Table
	Name  string // of the work on the table, for its lock
	Now   time.Time
	Clock func() time.Time
}

// CheckWrites finds what prevents writing to the table. It reports whether [CheckTrial] can follow.
func CheckWrites(ctx context.Context, l *inspect.Findings, w WriteCheck) bool {
	t := w.Table
	timesOK := !AddFailure(l, "times", t.ProveTimes(ctx, w.Now))
	writesOK := !AddFailure(l, "statuses", t.CheckWriteStatements(ctx, w.Now))
	l.AddGood("rights", "the database can be written to")
	ahead, err := t.DB().Skew(ctx, w.Clock)
	if !AddFailure(l, "clock", err) && ahead.Abs() > db.MaxSkew {
		l.AddWarning("clock", "set both by the same time servers (NTP)", "%s", Apart(ahead))
	}
	if advice := t.Catalog().Advice; advice != "" {
		advice, cure, _ := strings.Cut(advice, "; ")
		l.AddWarning("database", cure, "%s", advice)
	}
	lock, err := t.Locker(backlog.Work{Name: w.Name}).TryLock(ctx, backlog.RunLock)
	switch {
	case errors.Is(err, backlog.ErrLocked):
		l.AddGood("lock", "another process is working on this table just now")
	case !AddFailure(l, "lock", err):
		lock.Unlock()
		l.AddGood("lock", "the table can be locked")
	}
	return timesOK && writesOK
}

// Apart says how far the clock of this machine is ahead of the server's, or behind it.
func Apart(ahead time.Duration) string {
	how := "ahead of"
	if ahead < 0 {
		how = "behind"
	}
	return fmt.Sprintf("the clock of this machine is %v %s the database server's", ahead.Abs().Round(time.Second), how)
}
