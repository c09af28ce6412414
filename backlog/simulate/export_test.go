package simulate

// What the naive walk of the tests needs to be asked the same questions.

type Drawn struct {
	Inserted int64
	Poison   bool
	Seed     uint64
}

func (w *Workload) Drawn() (list []Drawn) {
	for _, r := range w.records() {
		list = append(list, Drawn{r.inserted, r.poison, r.seed})
	}
	return list
}

var Draw = draw
