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
	// mostLooked is how many rows of a state are tried where the first one refuses.
	mostLooked = 50
	// mostNamed is how many of those that refuse are named.
	mostNamed = 20
	// enough is how many rows must refuse before it is no trouble of single rows.
	enough = 3
)

// A Trial says what is to be tried, and as which process would do it.
type Trial struct {
	Table   *table.Table
	Policy  *backlog.Policy
	Now     time.Time
	NoWrite bool // nothing is to be written
}

// A stateTrial is what the rows of a state have come to.
type stateTrial struct {
	state     string
	untried   string // why a row was not tried
	accepted  string // the row that takes what is set; "": none does
	uncertain error  // its outcome depends on what the handler writes
	refused   []string
	lastError error // for which the last of them was
	everyRow  error // it refuses what, it seems, no row takes
}

// CheckTrial has the database judge what may be written to rows of each state. It says what
// a pass would do: a row that refuses for a reason of its own stops no pass. leftAlone is
// what [CheckReads] has returned.
func CheckTrial(ctx context.Context, l *inspect.Findings, x Trial, leftAlone string) {
	const takes, untried = "the table takes what is set", "the table takes what is set, as far as the catalogue tells: nothing was "
	if x.NoWrite {
		l.AddGood("statuses", untried+"written%s", leftAlone)
		return
	}
	list, err := x.states(ctx)
	if AddFailure(l, "statuses", err) {
		return
	}
	headline, detail := untried+"tried", leftAlone
	someTaken := slices.ContainsFunc(list, func(s *stateTrial) bool { return s.accepted != "" })
	var refused bool
	for _, s := range list {
		shown := inspect.Shown(s.state)
		if s.accepted != "" && s.uncertain == nil {
			headline = takes
			detail += fmt.Sprintf("\n%s: tried on row %s and rolled back", shown, s.accepted)
		} else if s.untried != "" {
			detail += fmt.Sprintf("\n%s: not tried, %s", shown, s.untried)
		}
		refused = s.report(l, someTaken) || refused
	}
	if !refused || headline == takes {
		l.AddGood("statuses", "%s%s", headline, detail)
	}
}

// states tries the rows of each state.
func (x *Trial) states(ctx context.Context) (list []*stateTrial, err error) {
	first, err := x.Table.OfEachState(ctx, 1)
	if err != nil {
		return nil, err
	}
	for _, state := range slices.Sorted(maps.Keys(first)) {
		s := &stateTrial{state: state, untried: "there is no such row that a pass takes"}
		list = append(list, s)
		if len(first[state]) == 0 || !x.try(ctx, s, first[state]) {
			continue
		}
		more, err := x.Table.OfEachState(ctx, mostLooked)
		if err != nil {
			return nil, err
		}
		if rows := more[state]; len(rows) > 1 {
			x.try(ctx, s, rows[1:])
		}
	}
	return list, nil
}

// try tries rows until one takes what is set, and reports whether others are to be tried.
func (x *Trial) try(ctx context.Context, s *stateTrial, rows []backlog.Record) (more bool) {
	for i := range rows {
		row := inspect.Shown(rows[i].Key.String())
		_, err := backlog.TryRecord(ctx, x.Table, &rows[i], x.Policy, x.Now)
		reach := backlog.ReachOf(err)
		if err == nil || reach == backlog.HandlerDecides {
			s.accepted = row
			s.uncertain = err
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

// report adds what is wrong, and reports whether anything is.
func (s *stateTrial) report(l *inspect.Findings, someTaken bool) bool {
	shown := inspect.Shown(s.state)
	if s.uncertain != nil {
		warn(l, s.uncertain, shown+": ")
	}
	switch {
	case len(s.refused) == 0:
		return s.uncertain != nil
	case s.accepted != "":
		warn(l, s.lastError, fmt.Sprintf("%s: %s, while row %s takes what is set: ", shown, s.named(), s.accepted))
	case s.everyRow != nil, !someTaken && len(s.refused) >= enough:
		AddFailure(l, "statuses", cmp.Or(s.everyRow, s.lastError))
	default:
		warn(l, s.lastError, fmt.Sprintf("%s: %s, and no other was looked at: ", shown, s.named()))
	}
	return true
}

// named says which rows a pass leaves alone.
func (s *stateTrial) named() string {
	names := s.refused[:min(len(s.refused), mostNamed)]
	text := inspect.Plural(len(s.refused), "row") + " that passes refuse and leave alone: " + strings.Join(names, ", ")
	if n := len(s.refused) - len(names); n > 0 {
		text += fmt.Sprintf(" and %d more", n)
	}
	return text
}

// warn adds a problem that stops no pass.
func warn(l *inspect.Findings, err error, before string) {
	var list inspect.Findings
	AddFailure(&list, "statuses", err)
	for _, f := range list {
		l.AddWarning(f.Name, f.Cure, "%s%s", before, f.Detail)
	}
}
