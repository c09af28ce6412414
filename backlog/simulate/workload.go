package simulate

import (
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

// A Workload is a stream of records, and how the service answers for them. Run draws the records
// of a stream at its first call and keeps them, so a Workload must not be used concurrently.
type Workload struct {
	From, To time.Time // records are inserted and passes run in (From, To]

	PerHour float64 // records inserted; more than 0
	Regular bool    // at even intervals; else at random, as in a Poisson process
	Poison  float64 // share of records that never succeed, 0 to 1
	Success float64 // chance that an attempt at another record succeeds, 0 to 1
	Outages []Outage
	Seed    uint64 // the same seed gives the same records and the same luck

	// Learned, if not nil, decides which attempts succeed, instead of Poison and Success.
	Learned *Behavior

	outageBegan time.Time // if there is one until From, in which all records failed; zero: there is none

	// Records, if not nil, replaces the stream. It is in the order of insertion.
	Records []Record
	Skipped int // rows of a table that are not in Records, because no pass takes them

	Zone *time.Location // of the dates in its picture; nil: UTC
}

// An Outage is a time during which no attempt succeeds.
type Outage struct{ From, To time.Time } // From <= t < To

// A Record is a pending record of a workload. It is kept small, because a workload keeps millions of them.
type Record struct {
	Inserted time.Time // zero: it has no date, and Oldest decides
	Eligible time.Time // not tried before; zero: no limit
	Expires  time.Time // not tried after; zero: no limit

	Memory *backlog.Memory // what its row remembers for the policy; nil: nothing
	Seed   uint64          // of its random numbers

	Oldest bool // without a date: only the widest tier takes it; else every tier does
	Failed bool // it has been tried and failed
	Poison bool // it never succeeds
}

// records returns the workload's records in the order of insertion. It draws the records of a stream
// and keeps them in Records for the next simulation. The same seed gives the same records on
// every machine. When ctx is done, it returns those so far and does not keep them.
func (w *Workload) records(ctx context.Context) []Record {
	if w.Records != nil {
		return w.Records
	}
	random := rand.New(rand.NewPCG(w.Seed, 0))
	gap := float64(time.Hour) / w.PerHour
	list := make([]Record, 0, int(w.To.Sub(w.From).Hours()*w.PerHour*1.01)+16)
	end := float64(w.To.Sub(w.From))
	at := 0.0 // nanoseconds since From
	for {
		if w.Regular {
			at += gap
		} else {
			// The conversion forbids a fused multiply-add, which rounds otherwise on some machines.
			at += float64(gap * random.ExpFloat64())
		}
		if at > end {
			w.Records = list
			return list
		}
		if len(list)%4096 == 0 && ctx.Err() != nil {
			return list
		}
		r := Record{
			Inserted: w.From.Add(time.Duration(at)),
			Poison:   random.Float64() < w.Poison,
			Seed:     random.Uint64(),
		}
		if w.Learned != nil {
			r.Poison = w.neverRecovers(&r)
		}
		list = append(list, r)
	}
}

// canSucceed reports whether any attempt at the record can succeed.
func (w *Workload) canSucceed(rec *Record) bool {
	return !rec.Poison && (w.Learned != nil || w.Success > 0)
}

// ReadRows sets Records to the rows of a table, without those that no pass takes for want of a
// date. read calls add with each row.
func (w *Workload) ReadRows(read func(add func(inspect.Row)) error) error {
	w.Records = []Record{}
	err := read(func(r inspect.Row) {
		if r.Unreadable != nil || r.Inserted.IsZero() && r.NoDate == "skip" {
			w.Skipped++
			return
		}
		w.Records = append(w.Records, Record{
			Inserted: r.Inserted,
			Oldest:   r.NoDate == "oldest",
			Eligible: r.Eligible,
			Expires:  r.Expires,
			Failed:   r.State == backlog.RowError,
			Memory:   r.Memory,
			Poison:   w.Poison == 1,
			Seed:     seedOf(w.Seed, r.Key),
		})
	})
	slices.SortStableFunc(w.Records, func(a, b Record) int { return a.Inserted.Compare(b.Inserted) })
	return err
}

// seedOf derives the seed of a row from its key, so that other rows do not change its luck.
func seedOf(seed uint64, k backlog.Key) uint64 {
	h := fnv.New64a()
	fmt.Fprintf(h, "%d %v", seed, k)
	return h.Sum64()
}

// outages are ordered by their beginning and do not overlap.
type outages []Outage

// mergeOutages orders a list of outages and joins those that overlap.
func mergeOutages(list []Outage) outages {
	sorted := slices.Clone(list)
	slices.SortFunc(sorted, func(a, b Outage) int { return a.From.Compare(b.From) })
	var merged outages
	for _, o := range sorted {
		if n := len(merged); n > 0 && !o.From.After(merged[n-1].To) {
			merged[n-1].To = latest(merged[n-1].To, o.To)
			continue
		}
		merged = append(merged, o)
	}
	return merged
}

func latest(a, b time.Time) time.Time {
	return slices.MaxFunc([]time.Time{a, b}, time.Time.Compare)
}

// active reports whether there is an outage at the time.
func (list outages) active(at time.Time) bool {
	return slices.ContainsFunc(list, func(o Outage) bool { return !at.Before(o.From) && at.Before(o.To) })
}

// lastEnd returns when the last outage ended that ended by the time, or the zero time.
func (list outages) lastEnd(at time.Time) time.Time {
	var end time.Time
	for _, o := range list {
		if !o.To.After(at) {
			end = o.To
		}
	}
	return end
}

// overlap reports whether there is an outage between two times.
func (list outages) overlap(from, to time.Time) bool {
	return slices.ContainsFunc(list, func(o Outage) bool { return o.To.After(from) && !o.From.After(to) })
}

// roll returns the n-th random number of a seed, uniform in [0, 1), by SplitMix64. A record rolls
// the same numbers whatever other records do, so policies are compared on the same luck.
func roll(seed uint64, n int) float64 {
	z := seed + uint64(n)*0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return float64((z^z>>31)>>11) / (1 << 53)
}

// maxRecords is how many records a workload may have at most.
const maxRecords = 20_000_000

// SetArrivals sets PerHour and Regular from a text such as 1000/h or 1000/h,regular. From and To
// are set before.
func (w *Workload) SetArrivals(text string) error {
	rate, kind, _ := strings.Cut(text, ",")
	kind = strings.TrimSpace(kind)
	switch kind {
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
	return w.SetPerHour(n * (time.Hour.Seconds() / per.Seconds()))
}

// SetPerHour sets PerHour. From and To are set before.
func (w *Workload) SetPerHour(n float64) error {
	w.PerHour = n
	if total := w.PerHour * w.To.Sub(w.From).Hours(); total > maxRecords {
		return fmt.Errorf("%.0f records are too many; 20,000,000 are the most", total)
	}
	return nil
}

// ParseShare reads a number from 0 to 1, which may be written in percent: 0.02 or 2%.
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

// ParsePeriods reads periods such as 6h+2h: the start, counted from the beginning of the
// workload, and the length. From and To are set before.
func (w *Workload) ParsePeriods(texts []string) ([]Outage, error) {
	var list []Outage
	whole := w.To.Sub(w.From)
	for _, text := range texts {
		start, duration, ok := strings.Cut(text, "+")
		from, err := tiers.ParseDuration(start)
		length, err2 := tiers.ParseDuration(duration)
		valid := ok && err == nil && err2 == nil && from >= 0 && length > 0
		if !valid || length > math.MaxInt64-from {
			return nil, fmt.Errorf("%q is no start and length; write it as in 6h+2h", text)
		}
		if from >= whole {
			return nil, fmt.Errorf("%q begins when all is over, after %s; let it begin sooner or --for be longer", text, tiers.FormatDuration(whole))
		}
		list = append(list, Outage{From: w.From.Add(from), To: w.From.Add(from + length)})
	}
	return list, nil
}

// Assume sets how attempts at the workload's records end: fail, succeed, p=SHARE or
// outage=DURATION. From is set before.
func (w *Workload) Assume(text string) error {
	var err error
	how, value, _ := strings.Cut(text, "=")
	w.Success = 1
	switch {
	case text == "fail":
		w.Poison = 1
		w.Success = 0
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

// SplitOutside splits a list at the commas that are not inside brackets, and trims the items.
func SplitOutside(list string) []string {
	count := func(item, a, b string) int { return strings.Count(item, a) + strings.Count(item, b) }
	var items []string
	item := ""
	for part := range strings.SplitSeq(list, ",") {
		item += part
		if count(item, "[", "{") > count(item, "]", "}") {
			item += ","
			continue
		}
		items = append(items, strings.TrimSpace(item))
		item = ""
	}
	if item != "" { // a bracket is not closed
		items = append(items, strings.TrimSpace(item))
	}
	return items
}
