package plan

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"backlog/backlog/key"
)

// A row is a pending record: f1, f2, … are fresh, e1, e2, … have failed, both in the order of
// their lane.
type row struct {
	lane   Lane
	number int
}

func rowOf(name string) row {
	var r row
	if name[0] == 'e' {
		r.lane = Failed
	}
	fmt.Sscan(name[1:], &r.number)
	return r
}

// at is the place behind the row.
func (r row) at() key.Cursor { return key.Cursor{Order: r.number, Key: key.New(r.number)} }

// in reports whether the section has the row.
func (r row) in(s Section) bool {
	behind := s.After.IsZero() || r.number > s.After.Order.(int) || s.After.Before && r.number == s.After.Order
	before := s.Until.IsZero() || r.number < s.Until.Order.(int) || !s.Until.Before && r.number == s.Until.Order
	return behind && before
}

// walk lets the plan take rows, as a pass does whose attempts end at once, and returns those
// it took. ends says how an attempt ends, by what the row's name begins with.
func walk(p *Plan, rows string, ends map[string]End) (taken []string) {
	var lanes [2][]string // what is left of each, in the order of the sections
	sections := make(map[string]int)
	for _, l := range []Lane{Fresh, Failed} {
		for i, s := range p.From.Sections(l) {
			for _, name := range strings.Fields(rows) {
				if r := rowOf(name); r.lane == l && r.in(s) {
					lanes[l] = append(lanes[l], name)
					sections[name] = i
				}
			}
		}
	}
	seq := [2]int{}
	look := func(l Lane) bool {
		if len(lanes[l]) == 0 {
			p.Exhausted(l)
			return false
		}
		p.Enter(l, sections[lanes[l][0]], rowOf(lanes[l][0]).at())
		return true
	}
	for {
		l, room := p.Next()
		if room == 0 {
			break
		}
		if !look(l) {
			continue
		}
		name := lanes[l][0]
		lanes[l] = lanes[l][1:]
		seq[l]++
		place := Place{Lane: l, Section: sections[name], Seq: seq[l], At: rowOf(name).at()}
		p.Claimed(l, 1)
		p.Dispatched(place)
		taken = append(taken, name)
		for prefix, end := range ends {
			if strings.HasPrefix(name, prefix) && p.CountEnd(l, end) {
				return taken
			}
		}
	}
	look(Fresh)
	look(Failed)
	return taken
}

const twenty = "f1 f2 f3 f4 f5 f6 f7 f8 f9 f10 f11 f12 f13 f14 f15 f16 f17 f18 f19 f20 " +
	"e1 e2 e3 e4 e5 e6 e7 e8 e9 e10 e11 e12 e13 e14 e15 e16 e17 e18 e19 e20"

// TestCapStarvesNothing has a case for each sentence of docs/concepts.md about caps and
// aborts. Each pass goes on where the one before it stopped.
func TestCapStarvesNothing(t *testing.T) {
	type pass struct{ rows, want string }
	for _, c := range []struct {
		sentence string
		plan     Plan
		ends     map[string]End
		passes   []pass
	}{
		{"fresh records come first, and failed ones keep a tenth of the cap", Plan{MaxRecords: 10}, nil, []pass{
			{twenty, "f1 f2 f3 f4 f5 f6 f7 f8 f9 e1"},
		}},
		{"the tenth is rounded up", Plan{MaxRecords: 11}, nil, []pass{
			{twenty, "f1 f2 f3 f4 f5 f6 f7 f8 f9 e1 e2"},
		}},
		{"what failed records do not need goes to fresh ones", Plan{MaxRecords: 10}, nil, []pass{
			{"f1 f2 f3 f4 f5 f6 f7 f8 f9 f10 f11", "f1 f2 f3 f4 f5 f6 f7 f8 f9 f10"},
		}},
		{"and the other way round", Plan{MaxRecords: 3}, nil, []pass{
			{"f1 e1 e2 e3", "f1 e1 e2"},
		}},
		{"under a cap of one they take turns", Plan{MaxRecords: 1}, nil, []pass{
			{"f1 f2 e1 e2", "f1"},
			{"f2 e1 e2", "e1"},
			{"f2 e1 e2", "f2"},
			{"f3 e1 e2", "e2"},
		}},
		{"also where each pass is aborted", Plan{MaxRecords: 1, AbortAfter: 1}, map[string]End{"": EndFailure}, []pass{
			{"f1 f2 e1", "f1"},
			{"f2 e1", "e1"},
			{"f2 e1", "f2"},
		}},
		{"the next pass goes on behind the last record", Plan{MaxRecords: 2}, nil, []pass{
			{"e1 e2 e3 e4 e5", "e1 e2"},
			{"e1 e2 e3 e4 e5", "e3 e4"},
			{"e1 e2 e3 e4 e5", "e5 e1"},
			{"e1 e2 e3 e4 e5", "e2 e3"},
		}},
		{"though that is gone", Plan{MaxRecords: 2}, nil, []pass{
			{"e1 e2 e3 e4", "e1 e2"},
			{"e1 e4", "e4 e1"},
		}},
		{"what is new comes before it, and what was reached after it", Plan{MaxRecords: 3}, nil, []pass{
			{"f10 f11 f12 f13", "f10 f11 f12"}, // they are skipped
			{"f8 f9 f10 f11 f12 f13", "f8 f9 f13"},
			{"f8 f9 f10 f11 f12 f13", "f8 f9 f10"},
		}},
		{"as much that is new as the cap allows leaves the place as it is", Plan{MaxRecords: 2}, nil, []pass{
			{"f10 f11 f12 f13", "f10 f11"},
			{"f8 f9 f10 f11 f12 f13", "f8 f9"},
			{"f8 f9 f10 f11 f12 f13", "f12 f13"},
		}},
		{"a pass that comes to its end leaves no place", Plan{MaxRecords: 3}, nil, []pass{
			{"f1 e1 e2", "f1 e1 e2"},
			{"f1 e1 e2", "f1 e1 e2"},
		}},
		{"under a policy the next pass begins with what has waited longest", Plan{MaxRecords: 2, ByWait: [2]bool{Failed: true}}, nil, []pass{
			{"e1 e2 e3", "e1 e2"},
			{"e1 e2 e3", "e1 e2"}, // which are others by now
		}},
		{"but goes on behind what was skipped or refused", Plan{MaxRecords: 2, ByWait: [2]bool{Failed: true}}, map[string]End{"e1": EndKeptPlace}, []pass{
			{"e1 e3 e4", "e1 e3"},
			{"e1 e4", "e4 e1"},
		}},
		{"in both lanes", Plan{MaxRecords: 1, ByWait: [2]bool{true, true}}, map[string]End{"f1": EndKeptPlace}, []pass{
			{"f1 f2", "f1"},
			{"f1 f2", "f2"},
		}},
		{"failures in a row end a pass", Plan{AbortAfter: 2}, map[string]End{"": EndFailure}, []pass{
			{"f1 f2 f3 f4", "f1 f2"},
			{"f3 f4 e1 e2", "f3 f4"},
			{"e1 e2", "e1 e2"},
		}},
		{"a success begins their count anew", Plan{AbortAfter: 2}, map[string]End{"f": EndFailure, "e": EndSuccess}, []pass{
			{"f1 e1 e2", "f1 e1 e2"},
		}},
		{"a skip and a rejection do not", Plan{AbortAfter: 2}, map[string]End{"f1": EndFailure, "f2": EndKeptPlace, "f3": EndNeutral, "f4": EndFailure}, []pass{
			{"f1 f2 f3 f4 f5", "f1 f2 f3 f4"},
		}},
	} {
		t.Run(c.sentence, func(t *testing.T) {
			var from Resume
			for i, pass := range c.passes {
				p := c.plan
				p.From = from
				if got, want := walk(&p, pass.rows, c.ends), strings.Fields(pass.want); !slices.Equal(got, want) {
					t.Fatalf("pass %d: want %v, got %v; it began with %+v", i+1, want, got, from)
				}
				from = p.Resume()
			}
		})
	}
}

// What was claimed and not dispatched keeps the pass from being complete.
func TestReturnedRecordsAreLeftForTheNextPass(t *testing.T) {
	p := Plan{}
	p.Claimed(Fresh, 2)
	p.Dispatched(Place{Lane: Fresh, Seq: 1, At: row{Fresh, 1}.at()})
	p.Returned(Fresh)
	p.Exhausted(Fresh)
	p.Exhausted(Failed)
	if p.Complete() || p.Resume().IsZero() {
		t.Errorf("want the pass incomplete, and a place to go on from, got %+v", p.Resume())
	}
}

// Workers dispatch in any order. The furthest record counts.
func TestNextPassGoesOnBehindTheFurthest(t *testing.T) {
	p := Plan{}
	for _, seq := range []int{2, 3, 1} {
		p.Dispatched(Place{Lane: Failed, Seq: seq, At: row{Failed, seq}.at()})
	}
	if got := p.Resume().FailedLast.Order; got != 3 {
		t.Errorf("want the place behind record 3, got %v", got)
	}
}

// A lane that is closed gives nothing more, but is not at its end.
func TestClosedLane(t *testing.T) {
	p := Plan{MaxRecords: 10}
	p.Close(Fresh)
	if l, room := p.Next(); l != Failed || room != 10 {
		t.Errorf("want all of the cap for failed records, got %d for %v ones", room, l)
	}
	p.Exhausted(Failed)
	if _, room := p.Next(); room != 0 || p.Complete() {
		t.Errorf("want nothing more, and the pass incomplete, got room for %d, complete %t", room, p.Complete())
	}
}
