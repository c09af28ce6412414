package storetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"backlog/backlog"
	"backlog/backlog/inspect"
)

// soon is the time of outcomes in cases that do not depend on it.
var soon = now.Add(time.Second)

var outcomes = []backlog.Outcome{backlog.Succeeded, backlog.Errored, backlog.Rejected}

// settlement returns the settlement of an outcome under the table's policy, as the
// engine makes it. It has a text unless it is a success.
func (f *fixture) settlement(r *backlog.Record, o backlog.Outcome, at time.Time) backlog.Settlement {
	s := backlog.Settlement{Record: r, Target: o.Target(), At: at}
	switch o {
	case backlog.Succeeded:
		return s
	case backlog.Snoozed:
		s.Until = at.Add(time.Hour)
		return s
	}
	s.Error = fmt.Sprintf("%v of %v: ne marche pas: “été”, 'quoted' \"twice\"", o, r.Key)
	last := false
	half := func() float64 { return 0.5 }
	s.Memory, last = f.table.Policy.End(r.Memory, backlog.End{Outcome: o, At: at, Random: half})
	if last {
		s.Target = backlog.RowDead
	}
	return s
}

// settle settles one group.
func (f *fixture) settle(group ...backlog.Settlement) {
	f.Helper()
	f.write("Settle", group, func(s backlog.Store, group []backlog.Settlement) ([]backlog.Unsettled, error) {
		return s.Settle(f.Context(), group)
	})
}

// write writes one group, and checks that the store and memory report the same conflicts.
func (f *fixture) write(
	what string, group []backlog.Settlement, call func(backlog.Store, []backlog.Settlement) ([]backlog.Unsettled, error),
) {
	f.Helper()
	own := slices.Clone(group) // for memory, because Begin changes records
	for i := range own {
		own[i].Record = new(*own[i].Record)
		if own[i].Memory != nil {
			own[i].Memory = new(*own[i].Memory)
		}
	}
	alike(f, fmt.Sprintf("conflicts of %s of %d outcomes", what, len(group)), func(s backlog.Store) ([]backlog.Unsettled, error) {
		if s == f.memory {
			return call(s, own)
		}
		return call(s, group)
	}, f.conflicts)
}

// conflicts returns the indexes of the outcomes that were not written.
func (f *fixture) conflicts(list []backlog.Unsettled) (places []string) {
	f.Helper()
	for _, u := range list {
		places = append(places, fmt.Sprintf("%03d", u.Index))
		if !errors.Is(u.Err, backlog.ErrConflict) {
			f.Errorf("want the outcome at %d settled or ErrConflict, got %v", u.Index, u.Err)
		}
	}
	slices.Sort(places)
	return places
}

// testSettle settles every outcome from every lane and number of failures, one by
// one, and an empty group. No other row changes.
func testSettle(f *fixture) {
	f.specimens(120, 4)
	f.settle()
	records := f.pending()
	for i := range records {
		f.settle(f.settlement(&records[i], outcomes[i%len(outcomes)], now.Add(time.Duration(i)*f.h.Precision())))
	}
	f.same("the settling of all that was due")
	for _, lane := range bothLanes {
		q := query(lane)
		for _, q.Now = range []time.Time{now, now.Add(time.Hour)} {
			f.wantLane(q)
		}
	}
}

// groupOf returns a case that settles n records of both lanes with all outcomes
// at once, in random order. Most attempts have different ends.
func groupOf(n int) func(*fixture) {
	return func(f *fixture) {
		numbers := f.numbers()
		f.insert(numbered(n, func(i int) Row {
			r := f.failed(i, numbers[i%len(numbers)], now.Add(-5*time.Hour-time.Duration(i+1)*f.h.Precision()))
			if i%4 == 3 {
				r = f.row(i, Fresh, time.Hour)
			}
			return r
		})...)
		records := f.pending()
		group := numbered(len(records), func(i int) backlog.Settlement {
			at := now.Add(time.Duration((i+1)*2/3) * f.h.Precision())
			return f.settlement(&records[i], outcomes[(i+1)%len(outcomes)], at)
		})
		rand.New(rand.NewPCG(uint64(n), 0)).Shuffle(len(group), func(i, j int) { group[i], group[j] = group[j], group[i] })
		f.settle(group...)
		f.same(fmt.Sprintf("a group of %d", n))
	}
}

// testGuard has another program change some rows of a group, to every status and for
// every outcome: their outcomes are not written, and all others are. Some rows have failed
// once more: a late outcome must not set the count and the times back, unless it is a
// success. Then the same call is made again, as when a connection breaks at commit: no
// failure is counted twice. A record that was read as fresh is a conflict once it has failed,
// also if only the number of failures shows that.
func testGuard(f *fixture) {
	read, changed := []string{Fresh, Failed}, append(f.statuses(), "deleted", "failed once more")
	if f.table.TwoFresh {
		read = append(read, AlsoFresh)
	}
	f.insert(numbered(len(read)*len(changed)*len(outcomes), func(i int) Row {
		r := f.failed(i, f.numbers()[i%3], now.Add(-day))
		if s := read[i%len(read)]; s != Failed {
			r = f.row(i, s, 0)
		}
		r.Inserted = now.Add(-time.Duration(i) * time.Minute)
		r.Attempts, r.LastError = i, "of last time"
		return r
	})...)
	records := f.pending()
	var group, others []backlog.Settlement
	seen := make(map[string]int)
	for i := range records {
		r := &records[i]
		what := r.Lane.String() + r.Status
		n := seen[what]
		seen[what]++
		group = append(group, f.settlement(r, outcomes[n/len(changed)%len(outcomes)], now.Add(time.Duration(i)*time.Second)))
		switch status := changed[n%len(changed)]; status {
		case "deleted":
			f.delete(r.Key)
		case "failed once more":
			others = append(others, f.settlement(r, backlog.Errored, now.Add(day)))
		case r.Status:
		default:
			f.update(r.Key, func(r *Row) { r.Status = status })
		}
	}
	f.settle(others...)
	for _, what := range []string{"a group with conflicts", "the same group once more"} {
		f.settle(group...)
		f.same(what)
	}
}

// testTwice writes every outcome of every lane once and then again, as a queue does that
// delivers it twice, with other outcomes of the same attempts among them. None of the later ones
// is written, also if the status stays.
func testTwice(f *fixture) {
	f.specimens(60, 5)
	records := f.pending()
	for i := range records {
		records[i].Exact = true
	}
	f.unchanged("that were read", records, true)
	var group, others []backlog.Settlement
	for i := range records {
		r := &records[i]
		at := now.Add(time.Duration(i) * time.Second)
		group = append(group, f.settlement(r, outcomes[i%len(outcomes)], at))
		others = append(others, f.settlement(r, outcomes[(i+1)%len(outcomes)], at))
	}
	f.settle(group...)
	f.same("the first time")
	f.settle(group...)
	f.same("the second time")
	for i := range others { // one by one
		f.settle(others[i])
	}
	f.same("other outcomes of the same attempts")
	f.unchanged("that were settled", records, false)
}

// unchanged checks that a store that is a Verifier finds all rows as they were read, or none.
func (f *fixture) unchanged(what string, records []backlog.Record, want bool) {
	f.Helper()
	for _, s := range []backlog.Store{f.h.Store(), f.memory} {
		store, ok := s.(backlog.Verifier)
		if !ok {
			continue
		}
		got, err := store.AsRead(f.Context(), records)
		if err != nil || len(got) != len(records) || slices.Contains(got, !want) {
			f.Errorf("AsRead of rows %s: want %t for all %d, got %v, and error %v", what, want, len(records), got, err)
		}
	}
}

// testErrors settles with a text that is longer than most columns, with characters of
// two bytes at odd places, so that a cut by bytes shows, and with one that some
// databases take in no text column. The store may change the text, but must write the
// status: a record that cannot be settled is tried again and again.
func testErrors(f *fixture) {
	f.pairs(3)
	records := f.pending()
	var group []backlog.Settlement
	for i, text := range []string{"x" + strings.Repeat("é", 40_000), "NUL \x00 and not UTF-8 \xff\xfe", "plain"} {
		group = append(group, f.settlement(&records[i], backlog.Errored, soon))
		group[i].Error = text
	}
	f.settle(group[0])
	f.settle(group[1:]...)
	for _, g := range group {
		got, _, err := f.h.Row(g.Record.Key)
		if err != nil || got.Status != Failed || got.LastError == "" {
			f.Errorf("after an error with a text of %d bytes: want %s and something of it, got %s and %q, and error %v", len(g.Error), Failed, got.Status, got.LastError, err)
		}
		if utf8.ValidString(g.Error) && (!utf8.ValidString(got.LastError) || !strings.HasPrefix(g.Error, got.LastError)) {
			f.Errorf("after an error with a text of %d bytes: want as many whole characters of its beginning as the column takes, got %d bytes, valid UTF-8: %t",
				len(g.Error), len(got.LastError), utf8.ValidString(got.LastError))
		}
	}
}

func (f *fixture) expirer() backlog.Expirer {
	f.Helper()
	e, ok := f.h.Store().(backlog.Expirer)
	if !ok {
		f.Skip("the store is no Expirer")
	}
	return e
}

// expiry returns the expiry of rows inserted before a time, with functions that do nothing.
func expiry(before time.Time) backlog.Expiry {
	return backlog.Expiry{
		Now: now, Before: before,
		Skips:   func(backlog.Key) bool { return false },
		Died:    func([]backlog.Record, int) {},
		Refused: func(*backlog.Record, error) {},
	}
}

// expire expires rows inserted before a time. It checks that BeforeDeath, if it is set, gets each record
// as it was, and that Died gets the dead ones, at least some of them.
func (f *fixture) expire(before time.Time, announced bool) {
	f.Helper()
	what := fmt.Sprintf("Expire before %v", before)
	alike(f, what, func(e backlog.Expirer) ([]string, error) {
		var dying, died []backlog.Record
		var refused []string
		count := 0
		x := expiry(before)
		if announced {
			x.BeforeDeath = func(r *backlog.Record) bool {
				dying = append(dying, *r)
				if want, ok := f.memory.Row(r.Key); ok && e != backlog.Expirer(f.memory) {
					got, ok, err := f.h.Row(r.Key)
					f.harness(err, "read record %v", r.Key)
					f.wantSame("the moment just before it is expired", want, got, ok)
				}
				return true
			}
		}
		x.Died = func(list []backlog.Record, n int) {
			died = append(died, list...)
			count += n
		}
		x.Refused = func(r *backlog.Record, why error) { refused = append(refused, "refused: "+keyText(r.Key)) }
		n, err := e.Expire(f.Context(), x)
		if count != n {
			f.Errorf("%s: %d are said to have died, want %d, which it returned", what, count, n)
		}
		if len(died) > n || len(died) == 0 && n > 0 {
			f.Errorf("%s: %d of the dead are named, want some of %d", what, len(died), n)
		}
		if announced && len(died) != n {
			f.Errorf("%s: %d of the dead are named, want each of %d that was announced", what, len(died), n)
		}
		slices.Sort(refused)
		return slices.Concat(f.unordered(dying), refused, []string{fmt.Sprintf("%d expired", n)}), err
	}, slices.Clone)
	f.same(what)
}

// testExpire expires rows of every kind, more of them than fit in a group.
func testExpire(f *fixture) {
	f.specimens(120, 2)
	if f.table.Dead && f.table.Policy == nil {
		f.insert(numbered(backlog.MaxGroup, func(i int) Row { return f.row(1000+i, Fresh, 7*day+time.Duration(i)*time.Second) })...)
	}
	f.expire(now.Add(-9*day), false)
	f.expire(now.Add(-edge), true)
	f.expire(now.Add(-edge), true)
}

// testExpireStopped ends the context during an expiry: only records that BeforeDeath got until
// then die.
func testExpireStopped(f *fixture) {
	f.pairs(20)
	ctx, cancel := context.WithCancel(f.Context())
	defer cancel()
	told := make(map[string]backlog.Key)
	x := expiry(now.Add(day))
	x.BeforeDeath = func(r *backlog.Record) bool {
		told[r.Key.String()] = r.Key
		if len(told) == 3 {
			cancel()
		}
		return true
	}
	n, err := f.expirer().Expire(ctx, x)
	f.wantCancelled("Expire", err)
	if n != 3 || len(told) != 3 {
		f.Errorf("Expire stopped at the third record: want it told of 3 and 3 expired, got %d and %d", len(told), n)
	}
	for _, k := range told {
		f.memory.Update(k, func(r *Row) { r.Status = Dead })
	}
	f.same("an Expire that was stopped")
	f.expire(now.Add(day), false)
}

// testRefused has stuck rows among others, also at the beginning and the end of groups. The table
// refuses what they do not take, and no other row with them: in outcomes, in their rehearsal,
// which writes nothing, and in an expiry.
func testRefused(f *fixture) {
	f.insert(numbered(backlog.MaxGroup+100, func(i int) Row {
		r := f.row(i, Fresh, time.Duration(i+1)*time.Minute)
		if i%2 == 1 {
			r.Status = Failed
		}
		if i < 2 || i%97 == 0 || i > backlog.MaxGroup+97 {
			r.Columns["note"] = Stuck
		}
		return r
	})...)
	records := f.pending()
	group := numbered(len(records), func(i int) backlog.Settlement {
		return f.settlement(&records[i], outcomes[i%len(outcomes)], soon)
	})
	for part := range slices.Chunk(group[:len(group)/2], 100) {
		f.rehearse(part)
		f.same("a rehearsal")
		f.writeRefused("Settle", part, func(s backlog.Store) ([]backlog.Unsettled, error) { return s.Settle(f.Context(), part) })
		f.same("a group with refused rows")
	}
	f.expire(now, false)
	f.expire(now, true)
}

// rehearse rehearses one group, if the store can.
func (f *fixture) rehearse(group []backlog.Settlement) {
	f.Helper()
	if _, ok := f.h.Store().(backlog.Rehearser); ok {
		f.writeRefused("Rehearse", group, func(s backlog.Store) ([]backlog.Unsettled, error) {
			return s.(backlog.Rehearser).Rehearse(f.Context(), group)
		})
	}
}

// writeRefused checks that the store and memory do not write the same outcomes of a group, for
// the same kinds of reasons.
func (f *fixture) writeRefused(what string, group []backlog.Settlement, call func(backlog.Store) ([]backlog.Unsettled, error)) {
	f.Helper()
	alike(f, fmt.Sprintf("%s of %d outcomes, some refused", what, len(group)), call, func(list []backlog.Unsettled) (texts []string) {
		for _, u := range list {
			texts = append(texts, fmt.Sprintf("%03d, a conflict: %t", u.Index, errors.Is(u.Err, backlog.ErrConflict)))
		}
		slices.Sort(texts)
		return texts
	})
}

// wantCounts counts the rows at the present of the suite.
func (f *fixture) wantCounts(edges ...time.Duration) {
	f.Helper()
	type counter interface {
		Count(ctx context.Context, now time.Time, edges []time.Duration) (inspect.Counts, error)
	}
	alike(f, fmt.Sprintf("Count up to %v and beyond", edges), func(c counter) (inspect.Counts, error) {
		return c.Count(f.Context(), now, edges)
	}, func(c inspect.Counts) []string {
		texts := []string{fmt.Sprintf("%+v", c)}
		for _, b := range append(c.Bands, c.Beyond) {
			texts = append(texts, time.Time(b.Oldest).UTC().String()) // to the nanosecond
		}
		return texts
	})
}

// testCount counts rows of every kind. The count does not depend on whether the policy makes a
// row due, but on whether it has given the row up.
func testCount(f *fixture) {
	f.wantCounts(time.Hour, day)
	f.specimens(120, 3)
	f.wantCounts(time.Hour, edge, 7*day)
	f.wantCounts(time.Second, 2*time.Second) // the first has only rows with dates in the future
	if f.table.NoDate == "skip" {
		f.wantCounts()
	}
}

// testSnooze snoozes the records whose rows keep that, with other outcomes of the same group, while
// another program changes some of the rows. Nothing else of the rows changes, and no record is
// pending before its time. An outcome may be settled twice.
func testSnooze(f *fixture) {
	f.specimens(120, 8)
	var group []backlog.Settlement
	at := now
	for i, r := range f.pending() {
		keeps := false
		alike(f, "KeepsSnooze of "+r.Key.String(), func(s backlog.Snoozer) (bool, error) {
			keeps = s.KeepsSnooze(&r)
			return keeps, nil
		}, func(keeps bool) []string { return []string{fmt.Sprint(keeps)} })
		o := outcomes[i%len(outcomes)]
		if keeps && i%5 != 0 {
			o = backlog.Snoozed
		}
		at = at.Add(f.h.Precision())
		group = append(group, f.settlement(&r, o, at))
		if i%7 == 0 {
			f.update(r.Key, func(row *Row) { row.Status = Other })
		}
	}
	f.settle(group...)
	f.same("a group with snoozes")
	for _, at := range []time.Time{now, at.Add(30 * time.Minute), now.Add(time.Hour), at.Add(time.Hour - f.h.Precision()), at.Add(time.Hour)} {
		for _, lane := range bothLanes {
			q := query(lane)
			q.Now = at
			f.wantLane(q, 50)
		}
	}
	var again []backlog.Settlement
	for _, s := range group {
		if s.Target == backlog.RowOther {
			again = append(again, s)
		}
	}
	f.settle(again...)
	f.same("the same snoozes once more")
}
