package advise

import (
	"cmp"
	"encoding/json"
	"io"
	"maps"
	"slices"
	"time"
)

// A foldedLine is what is kept of the passes of a day.
type foldedLine struct {
	Table string    `json:"table"`
	Day   string    `json:"day"`
	Ages  []AgeBand `json:"ages"`
}

// FoldDays returns one line for each table and day of the lines, with the sums of their bands. Days that are
// folded already are summed up, too. Lines without ages are dropped.
func FoldDays(lines io.Reader) ([]byte, error) {
	type tableDay struct{ table, day string }
	sums := make(map[tableDay]*Collector)
	h := new(History)
	list, err := h.readFile(lines, 0)
	if err != nil {
		return nil, err
	}
	for _, p := range list {
		if !p.HasAges {
			continue
		}
		at := tableDay{p.Table, p.Started.Format(time.DateOnly)}
		if sums[at] == nil {
			sums[at] = new(Collector)
		}
		sums[at].addBands(p.Bands)
	}
	inOrder := slices.SortedFunc(maps.Keys(sums), func(a, b tableDay) int {
		return cmp.Or(cmp.Compare(a.day, b.day), cmp.Compare(a.table, b.table))
	})
	var folded []byte
	for _, at := range inOrder {
		line, _ := json.Marshal(foldedLine{at.table, at.day, sums[at].Ages()}) // cannot fail: it has numbers and texts only
		folded = append(folded, line...)
		folded = append(folded, '\n')
	}
	return folded, nil
}

// addBands adds the counts of a pass or of a day.
func (c *Collector) addBands(list []Counts) {
	c.makeBands()
	for _, counts := range list {
		sum := &c.bands[counts.Band]
		for lane, t := range counts.Lanes {
			sum.Lanes[lane].Tried = min(sum.Lanes[lane].Tried+t.Tried, mostTried)
			sum.Lanes[lane].Succeeded = min(sum.Lanes[lane].Succeeded+t.Succeeded, mostTried)
		}
		sum.Waited = min(sum.Waited+max(0, counts.Waited), mostSeconds)
		sum.Aged = min(sum.Aged+max(0, counts.Aged), mostSeconds)
		isUnknown := min(counts.Waited, counts.Aged) < 0 && counts.Lanes[Failed].Tried > 0
		c.unknown[counts.Band] = c.unknown[counts.Band] || isUnknown
	}
}
