package picture_test

import (
	"fmt"
	"math"
	"testing"

	"backlog/internal/picture"
)

// An axis has as many lines as fit, by the steps given or by round numbers.
func TestAxisTicks(t *testing.T) {
	for _, c := range []struct {
		greatest, most int
		steps          []int
		want           string
	}{
		{8, 8, nil, "[0 1 2 3 4 5 6 7 8]"},
		{9, 8, nil, "[0 2 4 6 8]"},
		{8, 8, []int{1, 3}, "[0 1 2 3 4 5 6 7 8]"},
		{9, 8, []int{1, 3}, "[0 3 6 9]"},
		{40, 8, []int{1, 3}, "[0 5 10 15 20 25 30 35 40]"}, // no step is wide enough
	} {
		if got := fmt.Sprint(picture.AxisTicks(c.greatest, c.most, c.steps)); got != c.want {
			t.Errorf("%d by at most %d of %v: %s, want %s", c.greatest, c.most, c.steps, got, c.want)
		}
	}
}

// Lines can be told apart in grey, by lightness or by dashes, and from the
// shade behind them.
func TestStyles(t *testing.T) {
	seen := make(map[string]bool)
	for i := range 49 {
		color, dashes := picture.Style(i)
		grey := 0.299*float64(color.R) + 0.587*float64(color.G) + 0.114*float64(color.B)
		if grey > 185 {
			t.Errorf("line %d is %.0f of 255 light, and so is the shade", i, grey)
		}
		for j := range i {
			other, otherDashes := picture.Style(j)
			lightness := 0.299*float64(other.R) + 0.587*float64(other.G) + 0.114*float64(other.B)
			if i < 7 && (math.Abs(grey-lightness) < 10 || fmt.Sprint(dashes) == fmt.Sprint(otherDashes)) {
				t.Errorf("lines %d and %d look alike in grey", i, j)
			}
		}
		seen[fmt.Sprint(color, dashes)] = true
	}
	if len(seen) != 49 {
		t.Errorf("49 lines have %d looks", len(seen))
	}
}
