package table

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"backlog/backlog"
)

// errUndo ends a sample.
var errUndo = errors.New("to be undone")

// Sample does the work of the record and settles it, writes to out what was
// done, and undoes all of it. A record that is not pending is not settled, which
// is said. The time that the settlement writes, where it writes one, is the
// record's own time of insertion. Other programs cannot write meanwhile.
func (w *Work) Sample(ctx context.Context, r *backlog.Record, out io.Writer) error {
	var b strings.Builder
	settled := ""
	err := w.transact(ctx, func(tx *sql.Tx, prepared []*statement) error {
		b.Reset()
		settled = "settlement: success\nThe statements and the settlement have been undone.\n"
		err := w.lock(ctx, tx, r, prepared)
		pending := !errors.Is(err, backlog.ErrConflict)
		if !pending {
			settled = "settlement: none, the record is not pending\nThe statements have been undone.\n"
		} else if err != nil {
			return err
		}
		for i := range w.steps {
			s := &w.steps[i]
			s.show(&b, i+1, r)
			n, err := affected(prepared[i].exec(ctx, tx, s.args(r)))
			if err != nil {
				return &stepError{i + 1, err}
			}
			if !s.changes {
				continue
			}
			fmt.Fprintf(&b, "  rows affected: %d\n", n)
			if n == 0 && !w.allowZeroRows {
				return &stepError{i + 1, errNoRow}
			}
		}
		if pending {
			if err := w.settle(ctx, tx, r, r.Inserted, prepared); err != nil {
				return err
			}
		}
		return errUndo
	})
	if err == errUndo {
		b.WriteString(settled)
		err = nil
	} else {
		b.WriteString("What was done until then has been undone.\n")
	}
	_, failed := io.WriteString(out, b.String())
	return errors.Join(err, failed)
}

// show writes the statement and what is bound to its parameters.
func (s *step) show(b *strings.Builder, n int, r *backlog.Record) {
	fmt.Fprintf(b, "statement %d:\n    %s\n", n, strings.ReplaceAll(s.source, "\n", "\n    "))
	shown := make(map[string]bool)
	for _, p := range s.from {
		if !shown[p.name] {
			fmt.Fprintf(b, "  %s = %s\n", p.name, showValue(p.value(r)))
		}
		shown[p.name] = true
	}
}

// showValue returns the value for people, the beginning of a long one.
func showValue(v any) string {
	switch v := v.(type) {
	case nil:
		return "NULL"
	case []byte:
		return fmt.Sprintf("a BLOB of %d bytes", len(v))
	case string:
		if short := cut(v, 200, 0); len(short) < len(v) {
			return strconv.Quote(short) + fmt.Sprintf(" and more, %d bytes", len(v))
		}
		return strconv.Quote(v)
	}
	return fmt.Sprint(v)
}
