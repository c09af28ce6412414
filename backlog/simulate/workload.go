package simulate

import (
	"cmp"
	"context"
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"backlog/backlog"
	"backlog/backlog/inspect"
	"backlog/tiers"
)

// A Workload is a stream of records and of how the service answers.
type Workload struct {
	From, To time.Time // records are inserted and passes run in (From, To]

	PerHour float64 // records inserted; more than 0
	Regular bool    // at even intervals; else at random, as in a Poisson process
	Poison  float64 // share of records that never succeed, 0 to 1
	Success float64 // chance that an attempt at another one succeeds, 0 to 1
	Outages []Outage
	Seed    uint64

	// Records are there instead of those that come in, if not nil.
	Records []Record
	Left    int // rows of a table that are none of them: no pass takes them

	Zone *time.Location // of the dates in its picture; nil: UTC
}

// An Outage is a time during which no attempt succeeds.
type Outage struct{ From, To time.Time } // From <= t < To

// A Record is one of those that are tried.
type Record struct {
	Inserted time.Time // zero: it has no date, which means what Oldest says
	Oldest   bool      // without a date it is the widest tier's, else every tier's

	Eligible, Expires time.Time // not before, not after; zero: at any time

	Failed bool // it has been tried and failed, and is due by the policy
	Memory backlog.Memory

	Poison bool   // it never succeeds
	Seed   uint64 // of its luck
}

// records returns the workload's, in the order of insertion, and keeps them in
// Records for the next simulation. The same seed gives the same ones on any machine.
func (w *Workload) records(ctx context.Context) []Record {
	if w.Records != nil {
		return w.Records
	}
	random := rand.New(rand.NewPCG(w.Seed, 0))
	gap := float64(time.Hour) / w.PerHour
	list := make([]Record, 0, int(w.To.Sub(w.From).Hours()*w.PerHour*1.01)+16)
	end := float64(w.To.Sub(w.From))
	for at := 0.0; ; {
		if w.Regular {
			at += gap
		} else {
			at += float64(gap * random.ExpFloat64()) // not fused: the same on every machine
		}
		if at > end {
			w.Records = list
			return list
		}
		if len(list)%4096 == 0 && ctx.Err() != nil {
			return list
		}
		list = append(list, Record{
			Inserted: w.From.Add(time.Duration(at)),
			Poison:   random.Float64() < w.Poison,
			Seed:     random.Uint64(),
		})
	}
}

// ReadRows makes the rows of a table the workload's records, but for those that no pass
// takes, for want of a date. read calls add with each row.
func (w *Workload) ReadRows(read func(add func(inspect.Row)) error) error {
	w.Records = []Record{}
	err := read(func(r inspect.Row) {
		if r.Unreadable != nil || r.Inserted.IsZero() && r.NoDate == "skip" {
			w.Left++
			return
		}
		w.Records = append(w.Records, Record{
			Inserted: r.Inserted, Oldest: r.NoDate == "oldest", Eligible: r.Eligible, Expires: r.Expires,
			Failed: r.State == backlog.RowError, Memory: *cmp.Or(r.Memory, new(backlog.Memory)), Poison: w.Poison == 1, Seed: seedOf(w.Seed, r.Key),
		})
	})
	slices.SortStableFunc(w.Records, func(a, b Record) int { return a.Inserted.Compare(b.Inserted) })
	return err
}

// seedOf makes the luck of a record its own, whatever else is in the table.
func seedOf(seed uint64, k backlog.Key) uint64 {
	h := fnv.New64a()
	fmt.Fprintf(h, "%d %v", seed, k)
	return h.Sum64()
}

// outages are several by their beginning, without overlap.
type outages []Outage

// merged returns the outages by their beginning, those that overlap as one.
func merged(outages []Outage) (list outages) {
	sorted := slices.Clone(outages)
	slices.SortFunc(sorted, func(a, b Outage) int { return a.From.Compare(b.From) })
	for _, o := range sorted {
		if n := len(list); n > 0 && !o.From.After(list[n-1].To) {
			list[n-1].To = latest(list[n-1].To, o.To)
			continue
		}
		list = append(list, o)
	}
	return list
}

func latest(a, b time.Time) time.Time {
	return slices.MaxFunc([]time.Time{a, b}, time.Time.Compare)
}

// isOut reports whether there is an outage at that time.
func (list outages) isOut(at time.Time) bool {
	return slices.ContainsFunc(list, func(o Outage) bool { return !at.Before(o.From) && at.Before(o.To) })
}

// lastEnd returns when the last outage before that time ended, zero if there was
// none.
func (list outages) lastEnd(at time.Time) (end time.Time) {
	for _, o := range list {
		if !o.To.After(at) {
			end = o.To
		}
	}
	return end
}

// meets reports whether there is an outage between two times.
func (list outages) meets(from, to time.Time) bool {
	return slices.ContainsFunc(list, func(o Outage) bool { return o.To.After(from) && !o.From.After(to) })
}

// luckOf returns the n-th random number of a record, uniform in [0, 1). A record
// draws the same whatever others do, so that policies are compared on the same
// luck. The numbers are mixed as in SplitMix64.
func luckOf(seed uint64, n int) float64 {
	z := seed + uint64(n)*0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return float64((z^z>>31)>>11) / (1 << 53)
}

// maxRecords is how many records a workload may have.
const maxRecords = 20_000_000

// SetArrivals reads how many records come in: 1000/h, or 1000/h,regular.
func (w *Workload) SetArrivals(text string) error {
	rate, kind, _ := strings.Cut(text, ",")
	switch kind = strings.TrimSpace(kind); kind {
	case "", "poisson":
	case "regular":
		w.Regular = true
	default:
		return fmt.Errorf("%q is neither poisson nor regular", kind)
	}
	n, per, err := tiers.ParseRate(rate)
	if err != nil {
		return fmt.Errorf("%q %w", rate, err)
	}
	w.PerHour = n * (time.Hour.Seconds() / per.Seconds())
	if n := w.PerHour * w.To.Sub(w.From).Hours(); n > maxRecords {
		return fmt.Errorf("%.0f records are too many; 20,000,000 are the most", n)
	}
	return nil
}

// ParseShare returns a number from 0 to 1, which may be written in percent.
func ParseShare(text string) (float64, error) {
	number, percent := strings.CutSuffix(text, "%")
	n, err := strconv.ParseFloat(number, 64)
	if percent {
		n /= 100
	}
	if err != nil || !(n >= 0 && n <= 1) {
		return 0, fmt.Errorf("%q is not from 0 to 1; write it as in 0.02 or 2%%", text)
	}
	return n, nil
}

// ParsePeriods reads times that are written as when they begin, counted from
// the beginning of the workload, and how long they last: 6h+2h.
func (w *Workload) ParsePeriods(texts []string) (list []Outage, err error) {
	whole := w.To.Sub(w.From)
	for _, text := range texts {
		start, lasting, ok := strings.Cut(text, "+")
		from, err := tiers.ParseDuration(start)
		length, err2 := tiers.ParseDuration(lasting)
		if !ok || err != nil || err2 != nil || from < 0 || length <= 0 || length > math.MaxInt64-from {
			return nil, fmt.Errorf("%q is no start and length; write it as in 6h+2h", text)
		}
		if from >= whole {
			return nil, fmt.Errorf("%q begins when all is over, after %s; let it begin sooner or --for be longer", text, tiers.FormatDuration(whole))
		}
		list = append(list, Outage{From: w.From.Add(from), To: w.From.Add(from + length)})
	}
	return list, nil
}

// Assume completes the workload by how attempts at its records end: fail,
// succeed, p=SHARE or outage=DURATION.
func (w *Workload) Assume(text string) (err error) {
	how, value, _ := strings.Cut(text, "=")
	w.Success = 1
	switch {
	case text == "fail":
		w.Poison, w.Success = 1, 0
	case text == "succeed":
	case how == "p":
		w.Success, err = ParseShare(value)
	case how == "outage":
		d, err := tiers.ParseDuration(value)
		if err != nil || d <= 0 {
			return fmt.Errorf("%q is not a duration; write it as in outage=2h", value)
		}
		w.Outages = []Outage{{From: w.From, To: w.From.Add(d)}}
	default:
		return fmt.Errorf("%q is not one of fail, succeed, p=0.3, outage=2h", text)
	}
	return err
}

// SplitOutside splits at the commas that are in no brackets, and trims the items.
func SplitOutside(list string) (items []string) {
	count := func(item, a, b string) int { return strings.Count(item, a) + strings.Count(item, b) }
	item := ""
	for part := range strings.SplitSeq(list, ",") {
		if item += part; count(item, "[", "{") > count(item, "]", "}") {
			item += ","
			continue
		}
		items, item = append(items, strings.TrimSpace(item)), ""
	}
	if item != "" { // a bracket is open
		items = append(items, strings.TrimSpace(item))
	}
	return items
}
