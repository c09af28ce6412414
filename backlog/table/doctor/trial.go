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
	"backlog/backlog/table"
)

const (
	// mostLooked is how many rows of a state are tried if the first one is refused.
	mostLooked = 50
	// mostNamed is how many refused rows are named.
	mostNamed = 20
	// enough is how many rows must be refused before all rows of the state are taken to be.
	enough = 3
)

// A Trial says which writes to a table [CheckTrial] tries.
type Trial struct {
	Table   *table.Table
	Policy  *backlog.Policy
	Now     time.Time
	NoWrite bool // nothing may be written
}

// A stateTrial is the result of trying rows of one state.
type stateTrial struct {
	state     string
	untried   string // why a row was not tried
	accepted  string // the row for which the database accepts the write; "": none
	uncertain error  // why the write may still fail: that depends on what the handler writes
	snooze    error  // why that row does not keep a snooze
	refused   []string
	lastError error // by which the last of the refused rows was refused
	everyRow  error // an error that seems to apply to all rows
}

// CheckTrial tries to write outcomes to rows of each state, and rolls back. It reports what a pass would
// do: a row that is refused for a reason of its own does not stop a pass. leftAlone is the result of
// [CheckReads].
func CheckTrial(ctx context.Context, l *inspect.Findings, x Trial, leftAlone string) {
	const takes = "the table accepts the statuses that passes write"
	const untried = takes + ", as far as the catalogue tells: nothing was "
	if x.NoWrite {
		l.AddGood("statuses", untried+"written%s", leftAlone)
		return
	}
	list, err := x.states(ctx)
	if AddFailure(l, "statuses", err) {
		return
	}
	headline := untried + "tried"
	detail := leftAlone
	someTaken := slices.ContainsFunc(list, func(s *stateTrial) bool { return s.accepted != "" })
	var refused bool
	for _, s := range list {
		shown := inspect.Shown(s.state)
		if s.accepted != "" && s.uncertain == nil {
			headline = takes
			detail += fmt.Sprintf("\nfrom %s: tried on row %s and rolled back", shown, s.accepted)
		} else if s.untried != "" {
			detail += fmt.Sprintf("\nfrom %s: not tried: %s", shown, s.untried)
		}
		refused = s.report(l, someTaken) || refused
	}
	if !refused || headline == takes {
		l.AddGood("statuses", "%s%s", headline, detail)
	}
}

// states tries rows of each state.
func (x *Trial) states(ctx context.Context) (list []*stateTrial, err error) {
	first, err := x.Table.FirstOfEachState(ctx, 1)
	if err != nil {
		return nil, err
	}
	for _, state := range slices.Sorted(maps.Keys(first)) {
		s := &stateTrial{state: state, untried: "no pending row has this status"}
		list = append(list, s)
		if len(first[state]) == 0 || !x.try(ctx, s, first[state]) {
			continue
		}
		more, err := x.Table.FirstOfEachState(ctx, mostLooked)
		if err != nil {
			return nil, err
		}
		if rows := more[state]; len(rows) > 1 {
			x.try(ctx, s, rows[1:])
		}
	}
	return list, nil
}

// try tries rows until one is accepted. It reports whether trying more rows may tell more.
func (x *Trial) try(ctx context.Context, s *stateTrial, rows []backlog.Record) (more bool) {
	for i := range rows {
		row := inspect.Shown(rows[i].Key.String())
		_, err := backlog.TryRecord(ctx, x.Table, &rows[i], x.Policy, x.Now)
		reach := backlog.ReachOf(err)
		if err == nil || reach == backlog.HandlerDecides {
			s.accepted = row
			s.uncertain = err
			s.snooze = x.trySnooze(ctx, &rows[i])
			return false
		}
		if errors.Is(err, backlog.ErrLocked) || errors.Is(err, backlog.ErrConflict) || errors.Is(err, backlog.ErrUnavailable) {
			s.untried = fmt.Sprintf("row %s is not free: %v", row, err)
			return false
		}
		s.untried = ""
		s.lastError = err
		s.refused = append(s.refused, row)
		if reach == backlog.EveryRow {
			s.everyRow = err
		}
		if s.everyRow != nil && len(s.refused) >= enough {
			return false
		}
	}
	return true
}

// trySnooze tries to snooze a record whose row the table can keep that in.
func (x *Trial) trySnooze(ctx context.Context, r *backlog.Record) error {
	if !x.Table.KeepsSnooze(r) {
		return nil
	}
	return x.Table.Try(ctx, backlog.Settlement{Record: r, Target: backlog.RowOther, At: x.Now, Until: x.Now.Add(time.Hour)})
}

// report adds the problems of the state, and reports whether there are any that concern every pass. A
// snooze that is refused concerns only handlers that snooze.
func (s *stateTrial) report(l *inspect.Findings, someTaken bool) bool {
	shown := inspect.Shown(s.state)
	if s.snooze != nil {
		warn(l, s.snooze, shown+": if a handler snoozes a record, only the process remembers it, not the row: ")
	}
	if s.uncertain != nil {
		warn(l, s.uncertain, shown+": ")
	}
	switch {
	case len(s.refused) == 0:
		return s.uncertain != nil
	case s.accepted != "":
		warn(l, s.lastError, fmt.Sprintf("%s: %s, while row %s accepts what passes write: ", shown, s.named(), s.accepted))
	case s.everyRow != nil, !someTaken && len(s.refused) >= enough:
		AddFailure(l, "statuses", cmp.Or(s.everyRow, s.lastError))
	default:
		warn(l, s.lastError, fmt.Sprintf("%s: %s, and no other was looked at: ", shown, s.named()))
	}
	return true
}

// named says which rows passes leave alone.
func (s *stateTrial) named() string {
	names := s.refused[:min(len(s.refused), mostNamed)]
	text := inspect.Plural(len(s.refused), "row") + " that passes refuse and leave alone: " + strings.Join(names, ", ")
	if n := len(s.refused) - len(names); n > 0 {
		text += fmt.Sprintf(" and %d more", n)
	}
	return text
}

// warn adds a problem that does not stop passes.
func warn(l *inspect.Findings, err error, before string) {
	var list inspect.Findings
	AddFailure(&list, "statuses", err)
	for _, f := range list {
		l.AddWarning(f.Name, f.Cure, "%s%s", before, f.Detail)
	}
}
