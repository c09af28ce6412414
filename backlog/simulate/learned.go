package simulate

import (
	"cmp"
	"math"
	"math/rand/v2"
	"sort"
	"time"
)

// A Behavior is how long records stay broken. Once a record has recovered, an attempt at it succeeds unless
// there is an outage.
type Behavior struct {
	// Broken returns the share of all records that are broken at an age. It never grows with age.
	Broken func(age time.Duration) float64
	// Oldest is the age up to which that is known. A record that is broken then never recovers.
	Oldest time.Duration
}

// at returns the share of all records that are broken at an age, those that never recover included.
func (b *Behavior) at(age time.Duration) float64 { return b.Broken(min(max(age, 0), b.Oldest)) }

// Exponential returns the behavior of records if a share of them is broken at first, and a share of the broken ones
// recovers in each hour.
func Exponential(failures, perHour float64) *Behavior {
	return &Behavior{
		Broken: func(age time.Duration) float64 { return failures * math.Exp(-perHour*age.Hours()) },
		Oldest: 10 * 365 * 24 * time.Hour,
	}
}

// rank returns the share of all records that recover later than the record, which decides when it recovers:
// at the age at which the share of the broken ones has fallen to its rank. A record that had failed before the
// workload is among those that were still broken when the workload begins, or when an outage began before.
func (w *Workload) rank(rec *Record) float64 {
	rank := roll(rec.Seed, 0)
	age := cmp.Or(w.outageBegan, w.From).Sub(rec.Inserted)
	if rec.Failed && age > 0 {
		rank *= w.Learned.at(age)
	}
	return rank
}

// hasRecovered reports whether the record has recovered at a time.
func (w *Workload) hasRecovered(rec *Record, at time.Time) bool {
	return w.Learned.at(at.Sub(rec.Inserted)) <= w.rank(rec)
}

// recovery returns the least age at which the record has recovered. ok is false if it never recovers.
func (w *Workload) recovery(rec *Record) (age time.Duration, ok bool) {
	rank := w.rank(rec)
	if w.Learned.at(0) <= rank {
		return 0, true
	}
	if w.Learned.at(w.Learned.Oldest) > rank {
		return 0, false
	}
	return time.Duration(sort.Search(int(w.Learned.Oldest), func(age int) bool {
		return w.Learned.at(time.Duration(age)) <= rank
	})), true
}

// neverRecovers reports whether the record is still broken at the oldest age that is known.
func (w *Workload) neverRecovers(rec *Record) bool {
	return w.Learned.at(w.Learned.Oldest) > w.rank(rec)
}

// DrawOutages draws outages by the seed of the workload. The time between two of them is exponential with the
// mean gap, and each has one of the lengths. From and To are set before.
func (w *Workload) DrawOutages(gap time.Duration, lengths []time.Duration) []Outage {
	if gap <= 0 || len(lengths) == 0 {
		return nil
	}
	var list []Outage
	random := rand.New(rand.NewPCG(w.Seed, 1))
	whole := float64(w.To.Sub(w.From))
	at := 0.0 // nanoseconds since From
	for {
		at += float64(float64(gap) * random.ExpFloat64())
		if at >= whole {
			return list
		}
		length := lengths[random.IntN(len(lengths))]
		from := w.From.Add(time.Duration(at))
		list = append(list, Outage{From: from, To: from.Add(length)})
		at += float64(length)
	}
}
