package simulate

import (
	"time"

	"backlog/backlog/inspect"
)

// SetCounted makes points of the records that were counted in bands of ages, which end at
// the edges, the workload's records: at most about most of them, each for so many records
// as are returned. A point's age is the middle of its band's; what is older than the last
// edge is left out.
func (w *Workload) SetCounted(c inspect.Counts, edges []time.Duration, most int) (each int) {
	total := 0
	for _, b := range c.Bands {
		total += b.Fresh + b.Failed
	}
	each = max(1, (total+most-1)/most)
	w.Records = []Record{}
	for i := len(edges) - 1; i >= 0; i-- {
		younger := time.Duration(0)
		if i > 0 {
			younger = edges[i-1]
		}
		add := func(n int, failed bool) {
			for range (n + each - 1) / each {
				w.Records = append(w.Records, Record{
					Inserted: w.From.Add(-(younger + edges[i]) / 2), Failed: failed, Poison: w.Poison == 1, Seed: uint64(len(w.Records)),
				})
			}
		}
		add(c.Bands[i].Fresh, false)
		add(c.Bands[i].Failed, true)
	}
	return each
}

// Times makes the report one in which every record is n.
func (r *Report) Times(n int) {
	for _, x := range []*int{&r.Records, &r.Attempts, &r.Succeeded, &r.Failed, &r.Dead, &r.Pending, &r.Recovered, &r.Lost, &r.PeakPerMinute} {
		*x *= n
	}
	for i := range r.Series {
		b := &r.Series[i]
		for _, x := range []*int{&b.Attempts, &b.Failed, &b.Dead, &b.Pending, &b.Most} {
			*x *= n
		}
	}
}
