package simulate

import (
	"cmp"
	"container/heap"
	"math"
	"slices"
	"time"
)

// together are records whose age alone decides when they are tried. They are counted tick by tick.
type together struct {
	*run
	records   []*Record // in the order of their insertion; an index below is one of this list
	recovers  []int64   // when each has recovered, in nanoseconds since 1970
	order     []int32   // those that recover, in the order of their recovery
	recovered indexes   // those that have recovered and not succeeded yet
	succeeded sums      // 1 for each that has succeeded
	oldest    []int     // for each tier, the oldest record that it still takes
	inserted  int       // how many are inserted; a tick tries those with smaller indexes
}

const never = math.MaxInt64

// countTogether counts the attempts at records. Each tick tries all pending ones that its tier is wide enough for.
func (r *run) countTogether(records []*Record) {
	if len(records) == 0 {
		return
	}
	slices.SortStableFunc(records, func(a, b *Record) int { return a.Inserted.Compare(b.Inserted) })
	t := &together{
		run:      r,
		records:  records,
		recovers: make([]int64, len(records)),
		oldest:   make([]int, len(r.tiers)),
	}
	for i, rec := range records {
		t.recovers[i] = t.recoversAt(rec)
		if t.recovers[i] != never {
			t.order = append(t.order, int32(i))
		}
	}
	slices.SortFunc(t.order, func(a, b int32) int { return cmp.Compare(t.recovers[a], t.recovers[b]) })
	if len(t.order) > 0 {
		t.succeeded = make(sums, len(records)+1)
	}
	t.eachTick(func(at time.Time, widest int) {
		r.reportProgressAt(at, len(records))
		t.tick(at, widest)
	})
	if r.ctx.Err() != nil {
		return
	}
	for i, rec := range records {
		if t.succeeded.between(i, i+1) == 0 {
			r.countExpiry(rec, r.workload.To)
		}
	}
}

// recoversAt returns when the record has recovered. That is after its insertion, so that the tick at that very
// moment does not try it.
func (t *together) recoversAt(rec *Record) int64 {
	if !t.workload.canSucceed(rec) {
		return never
	}
	age, ok := t.workload.recovery(rec)
	if !ok {
		return never
	}
	return rec.Inserted.UnixNano() + int64(max(age, 1))
}

// eachTick calls visit with each tick of the workload and the index of the widest tier that ticks then.
func (r *run) eachTick(visit func(at time.Time, widest int)) {
	next := make([]time.Time, len(r.tiers))
	for i, t := range r.tiers {
		next[i] = t.Next(r.workload.From)
	}
	for r.ctx.Err() == nil {
		at := slices.MinFunc(next, time.Time.Compare)
		if at.After(r.workload.To) {
			return
		}
		widest := 0 // the tiers are in the order of their ages
		for i, t := range r.tiers {
			if next[i].Equal(at) {
				widest = i
				next[i] = t.Next(at)
			}
		}
		visit(at, widest)
	}
}

// tick counts the attempts of a tick.
func (t *together) tick(at time.Time, widest int) {
	now := at.UnixNano()
	for t.inserted < len(t.records) && t.records[t.inserted].Inserted.UnixNano() < now {
		t.inserted++
	}
	for len(t.order) > 0 && t.recovers[t.order[0]] <= now {
		heap.Push(&t.recovered, t.order[0])
		t.order = t.order[1:]
	}
	first := t.oldest[widest]
	limit := now - int64(t.tiers[widest].MaxAge)
	for first < t.inserted && t.records[first].Inserted.UnixNano() < limit {
		first++
	}
	t.oldest[widest] = first
	attempts := t.inserted - first - t.succeeded.between(first, t.inserted)
	if attempts == 0 {
		return
	}
	succeeded := 0
	if !t.outages.active(at) {
		succeeded = t.succeed(at, first)
	}
	t.countAttempts(at, attempts, attempts-succeeded)
}

// succeed lets the recovered records from the index first on succeed, and returns how many these are.
func (t *together) succeed(at time.Time, first int) int {
	n := 0
	for len(t.recovered) > 0 && int(t.recovered[0]) >= first {
		i := int(heap.Pop(&t.recovered).(int32))
		t.countSuccess(at, t.records[i])
		t.succeeded.add(i)
		n++
	}
	return n
}

// indexes are a heap with the greatest index first.
type indexes []int32

// Len implements [heap.Interface].
func (x indexes) Len() int { return len(x) }

// Less implements [heap.Interface].
func (x indexes) Less(i, j int) bool { return x[i] > x[j] }

// Swap implements [heap.Interface].
func (x indexes) Swap(i, j int) { x[i], x[j] = x[j], x[i] }

// Push implements [heap.Interface].
func (x *indexes) Push(i any) { *x = append(*x, i.(int32)) }

// Pop implements [heap.Interface].
func (x *indexes) Pop() any {
	last := (*x)[len(*x)-1]
	*x = (*x)[:len(*x)-1]
	return last
}

// sums are a Fenwick tree of counts. nil: all are 0.
type sums []int32

// add adds 1 to the count of an index.
func (s sums) add(i int) {
	for i++; i < len(s); i += i & -i {
		s[i]++
	}
}

// between returns the sum of the counts from an index to before another.
func (s sums) between(from, to int) int {
	if s == nil {
		return 0
	}
	return s.before(to) - s.before(from)
}

// before returns the sum of the counts before an index.
func (s sums) before(i int) int {
	sum := 0
	for ; i > 0; i -= i & -i {
		sum += int(s[i])
	}
	return sum
}
