package memory

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"

	"backlog/backlog"
)

// TestIndex compares the index with a slice that is sorted anew, while it
// grows and shrinks to nothing.
func TestIndex(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	x := newIndex(false)
	var model []*entry
	step := func(grow float64) {
		if len(model) > 0 && random.Float64() > grow {
			i := random.IntN(len(model))
			x.tree.Delete(model[i])
			model = slices.Delete(model, i, i+1)
			return
		}
		e := &entry{at: random.Int64N(50), Row: Row{Key: backlog.NewKey(random.Int64())}}
		x.tree.Set(e)
		model = append(model, e)
	}
	for range 20 * 512 {
		step(0.8)
	}
	checkIndex(t, x, model)
	for len(model) > 2*512 {
		step(0.2)
	}
	checkIndex(t, x, model)
	for len(model) > 0 {
		step(0)
	}
	checkIndex(t, x, nil)
}

// TestIndexOneSided inserts at one end only, as a table or a pass does.
func TestIndexOneSided(t *testing.T) {
	for _, direction := range []int64{1, -1} {
		x := newIndex(false)
		var model []*entry
		for i := range int64(5 * 512) {
			e := &entry{at: i * direction, Row: Row{Key: backlog.NewKey(i)}}
			x.tree.Set(e)
			model = append(model, e)
		}
		checkIndex(t, x, model)
	}
}

// checkIndex compares the index with a model that is in no order.
func checkIndex(t *testing.T, x *index, model []*entry) {
	t.Helper()
	sorted := slices.Clone(model)
	slices.SortFunc(sorted, func(a, b *entry) int { return cmp.Or(cmp.Compare(b.at, a.at), b.Key.Compare(a.Key)) })
	all := slices.Collect(x.after(x.place(backlog.Cursor{}), false))
	if !slices.Equal(all, sorted) {
		t.Fatalf("want %d entries in the order of a lane, got %d or another order", len(sorted), len(all))
	}
	for i := 0; i < len(sorted); i += 97 {
		if rest := slices.Collect(x.after(sorted[i], false)); !slices.Equal(rest, sorted[i+1:]) {
			t.Fatalf("after entry %d of %d: want the %d behind it, got %d", i, len(sorted), len(sorted)-i-1, len(rest))
		}
	}
}
