package simulate

import "time"

// maxCells bounds the memory of a flow.
const maxCells = 4 << 20

// A flow is how many records are pending when: those that come and go in each
// cell, a minute or, in a very long time, several. What comes in a cell is there
// before anything goes, as what has come before a tick is.
type flow struct {
	from        time.Time
	cell        time.Duration
	come, going []uint32
}

func newFlow(from, to time.Time) flow {
	minutes := int(to.Sub(from)/time.Minute) + 2
	per := (minutes + maxCells - 1) / maxCells
	n := minutes/per + 1
	return flow{from, time.Duration(per) * time.Minute, make([]uint32, n), make([]uint32, n)}
}

// at returns the cell of a time, which ends with it if it is a whole one.
func (f *flow) at(t time.Time) int {
	return min(max(0, int((t.Sub(f.from)+f.cell-1)/f.cell)), len(f.come)-1)
}

func (f *flow) comes(t time.Time) { f.come[f.at(t)]++ }
func (f *flow) goes(t time.Time)  { f.going[f.at(t)]++ }
