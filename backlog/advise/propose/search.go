package propose

import (
	"math"
	"slices"
)

// A search finds the schedule of a space with the fewest calls that keeps a goal. It is a shortest path over
// the pairs of edge and interval, with what each path has used of the two limits as its label. Paths that
// cannot keep a limit or cannot be better than the best one known are left out, by what
// the rest of the way takes at least.
type search struct {
	*space
	goal
	late [][]float64   // share that is late up to an edge, by interval and edge
	edge [][][]float64 // by interval, next interval and edge; nil: does not follow
	ends [][]ending    // by interval and edge
	best total
	path []step // nil: none is known
	// enough are calls so few that the search may end, and more than which no path is of interest; -1: the fewest.
	enough float64
}

// An ending is what comes after the last searched tier.
type ending struct {
	total
	tiers    int // of today that follow
	possible bool
}

// fewestCalls returns the schedule with the fewest calls that keeps a goal, nil if no schedule keeps it.
func (s *space) fewestCalls(g goal) (path []step, cost total) {
	r := s.newSearch(g)
	r.run()
	return r.path, r.best
}

// within returns whether a schedule with so many calls keeps a goal.
func (s *space) within(g goal, calls float64) bool {
	r := s.newSearch(g)
	r.enough = calls
	r.run()
	return r.path != nil && r.best.calls <= calls
}

// newSearch returns a search that knows one path: today's tiers beyond the oldest known age alone.
func (s *space) newSearch(g goal) *search {
	r := &search{space: s, goal: g, best: total{calls: math.Inf(1)}, enough: -1}
	r.prepare()
	if len(s.beyond) > 0 {
		if t := s.total(g, s.beyond); t.allowed() && s.beyond[0].every <= g.new {
			r.best = t
			r.path = s.beyond
		}
	}
	return r
}

// prepare computes what the goal makes of each part of a schedule.
func (r *search) prepare() {
	m := r.model
	timed := !math.IsInf(r.wait, 1)
	for i, every := range r.every {
		late := make([]float64, len(r.edges))
		ends := make([]ending, len(r.edges))
		next := make([][]float64, len(r.every))
		for e, edge := range r.edges {
			if timed {
				late[e] = m.late(every, edge, r.wait)
			}
			if edge >= every {
				last := step{edge, every}
				t, ok := r.ending(r.goal, last)
				ends[e] = ending{t, r.following(last), ok}
			}
		}
		for j := i + 1; j < len(r.every); j++ {
			if !follows(r.every[j], every) {
				continue
			}
			next[j] = make([]float64, len(r.edges))
			for e, edge := range r.edges {
				if timed && edge >= every {
					next[j][e] = m.edge(step{edge, every}, r.every[j], r.wait)
				}
			}
		}
		r.late = append(r.late, late)
		r.ends = append(r.ends, ends)
		r.edge = append(r.edge, next)
	}
}

// A place is a tier at the end of a path.
type place struct{ edge, every int }

// starts calls yield for each first tier.
func (r *search) starts(yield func(to place, cost total)) {
	for i, every := range r.every {
		if every > r.new {
			break
		}
		allowed := r.allowed(r.goal, every)
		for e, edge := range r.edges {
			if edge >= every {
				yield(place{e, i}, total{r.calls[i][e], r.late[i][e] - allowed.late, -allowed.lost})
			}
		}
	}
}

// steps calls yield for each tier after one.
func (r *search) steps(from place, yield func(to place, cost total)) {
	for j := from.every + 1; j < len(r.every); j++ {
		if r.edge[from.every][j] == nil {
			continue
		}
		late := r.edge[from.every][j][from.edge] - r.late[j][from.edge]
		calls := r.calls[j]
		for e := from.edge + 1; e < len(r.edges); e++ {
			if r.edges[e]-r.edges[from.edge] >= r.every[j] {
				yield(place{e, j}, total{calls: calls[e] - calls[from.edge], late: late + r.late[j][e]})
			}
		}
	}
}

// A rest has, for each number of tiers that may follow and each place, the least of a weighted sum of
// what follows.
type rest struct {
	weight [2]float64 // of calls and of late
	least  [][]float64
	via    [][]place // the next place; the same one: the end
}

func (r *search) index(p place) int { return p.every*len(r.edges) + p.edge }

// newRest returns the rest for two weights. Endings that lose too many at any first interval are
// left out.
func (r *search) newRest(calls, late, mostLost float64) *rest {
	places := len(r.every) * len(r.edges)
	t := &rest{weight: [2]float64{calls, late}}
	for n := range r.most {
		least := make([]float64, places)
		via := make([]place, places)
		for i := range r.every {
			for e := range r.edges {
				p := place{e, i}
				k := r.index(p)
				least[k] = math.Inf(1)
				via[k] = p
				if end := r.ends[i][e]; end.possible && end.tiers <= n && end.lost <= mostLost+tolerance {
					least[k] = calls*end.calls + late*end.late
				}
				if n == 0 {
					continue
				}
				before := t.least[n-1]
				r.steps(p, func(to place, cost total) {
					if sum := calls*cost.calls + late*cost.late + before[r.index(to)]; sum < least[k] {
						least[k] = sum
						via[k] = to
					}
				})
			}
		}
		t.least = append(t.least, least)
		t.via = append(t.via, via)
	}
	return t
}

// bound returns the least that a path with a cost takes in all, after which so many tiers may follow.
func (t *rest) bound(cost total, n, place int) float64 {
	return t.weight[0]*cost.calls + t.weight[1]*cost.late + t.least[n][place]
}

// cheapest returns the path with the least weighted sum.
func (r *search) cheapest(t *rest) (path []place, sum float64) {
	sum = math.Inf(1)
	var at place
	r.starts(func(to place, cost total) {
		if b := t.bound(cost, r.most-1, r.index(to)); b < sum {
			sum = b
			at = to
		}
	})
	if math.IsInf(sum, 1) {
		return nil, sum
	}
	for n := r.most - 1; ; n-- {
		path = append(path, at)
		next := t.via[n][r.index(at)]
		if next == at {
			return path, sum
		}
		at = next
	}
}

// offer keeps a path if it is the best that keeps the goal, and returns its cost.
func (r *search) offer(path []place) total {
	list := r.schedule(path)
	t := r.total(r.goal, list)
	if t.allowed() && t.calls < r.best.calls {
		r.best = t
		r.path = list
	}
	return t
}

// schedule returns the tiers of a path and today's beyond. Of tiers with the same interval one is enough.
func (r *search) schedule(path []place) (list []step) {
	for _, p := range path {
		list = append(list, step{r.edges[p.edge], r.every[p.every]})
	}
	tail, _ := r.tail(list[len(list)-1])
	for _, t := range tail {
		if last := &list[len(list)-1]; last.every == t.every {
			last.upto = t.upto
		} else {
			list = append(list, t)
		}
	}
	return list
}

const (
	mostWeighings = 20
	// boundsUsed is how many of the last rests bound a path.
	boundsUsed = 3
)

// run searches. First it weighs late against calls. At the weight where the best path that keeps the limit costs
// as much as the best one that does not, the cheapest path is a better one of the two kinds, or it costs
// as much, too. That gives a good path, and bounds for all others.
func (r *search) run() {
	mostLost := 0.0
	r.starts(func(_ place, cost total) { mostLost = max(mostLost, -cost.lost) })
	rests := []*rest{r.newRest(1, 0, mostLost)}
	path, least := r.cheapest(rests[0])
	if path == nil {
		return
	}
	cheap := r.offer(path)
	if cheap.allowed() || r.enough > 0 && least > r.enough {
		return // nothing is cheaper
	}
	fastest := r.newRest(0, 1, mostLost)
	path, late := r.cheapest(fastest)
	if path == nil || late > tolerance {
		return
	}
	good := r.offer(path)
	for range mostWeighings {
		if r.best.calls <= r.enough || good.late >= cheap.late || good.calls <= cheap.calls {
			break
		}
		weight := (good.calls - cheap.calls) / (cheap.late - good.late)
		t := r.newRest(1, weight, mostLost)
		rests = append(rests, t)
		path, least := r.cheapest(t)
		if least > r.best.calls*(1-tolerance) || r.enough > 0 && least > r.enough {
			return
		}
		between := r.offer(path)
		if least >= (cheap.calls+weight*cheap.late)*(1-tolerance) {
			break
		}
		if between.late <= tolerance {
			good = between
		} else {
			cheap = between
		}
	}
	r.label(rests[max(0, len(rests)-boundsUsed):], fastest)
}

// A label is a path to a place.
type label struct {
	total
	at   place
	from int // the index of the label before, -1: none
}

// label searches all paths that may be better than the best one.
func (r *search) label(rests []*rest, fastest *rest) {
	var labels []label
	var layer [][]int // by place, the labels with so many tiers
	hopeful := func(l label, n int) bool {
		k := r.index(l.at)
		most := r.best.calls * (1 - tolerance)
		if r.enough > 0 {
			most = min(most, r.enough*(1+tolerance))
		}
		if fastest.bound(l.total, n, k) > tolerance {
			return false
		}
		return !slices.ContainsFunc(rests, func(t *rest) bool {
			return t.bound(l.total, n, k) >= most
		})
	}
	add := func(l label, n int) {
		if !hopeful(l, n) {
			return
		}
		k := r.index(l.at)
		kept := layer[k][:0:0]
		for _, i := range layer[k] {
			other := labels[i].total
			if other.calls <= l.calls && other.late <= l.late && other.lost <= l.lost {
				return
			}
			if l.calls > other.calls || l.late > other.late || l.lost > other.lost {
				kept = append(kept, i)
			}
		}
		labels = append(labels, l)
		layer[k] = append(kept, len(labels)-1)
	}
	places := len(r.every) * len(r.edges)
	layer = make([][]int, places)
	r.starts(func(to place, cost total) { add(label{cost, to, -1}, r.most-1) })
	for n := r.most - 1; n >= 0 && r.best.calls > r.enough; n-- {
		current := layer
		layer = make([][]int, places)
		for _, list := range current {
			for _, i := range list {
				l := labels[i]
				end := r.ends[l.at.every][l.at.edge]
				sum := l.plus(end.total)
				possible := end.possible && end.tiers <= n && sum.allowed()
				if possible && sum.calls < r.best.calls {
					r.offer(pathTo(labels, i))
				}
				if n > 0 {
					r.steps(l.at, func(to place, cost total) { add(label{l.plus(cost), to, i}, n-1) })
				}
			}
		}
	}
}

// pathTo returns the places up to a label.
func pathTo(labels []label, i int) (path []place) {
	for ; i >= 0; i = labels[i].from {
		path = append(path, labels[i].at)
	}
	slices.Reverse(path)
	return path
}
