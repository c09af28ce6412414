package propose

import "math"

const (
	// perOctave is how many cells of a table there are from an age to its double. In a cell a curve is
	// taken for a straight line.
	perOctave = 32
	// mantissaBits of a float64 tell the cell within an octave.
	mantissaBits = 5
	// youngest and eldest are the logarithms of the ages in seconds between which cells are: a quarter of a
	// second and four years.
	youngest = -2
	eldest   = 27
)

// A table has a curve and its integral at fixed ages, so that both are looked up in a few nanoseconds.
type table struct {
	ages   []float64 // the first is 0
	broken []float64
	sums   []float64 // the integral from 0 to each age
	oldest float64   // beyond it the curve stays what it is
	end    float64   // the curve there
}

// newTable returns the table of a curve that is known up to an age.
func newTable(c Curve, oldest float64) *table {
	n := (eldest-youngest)*perOctave + 2
	t := &table{oldest: oldest, end: c(oldest)}
	t.ages = make([]float64, n)
	t.broken = make([]float64, n)
	t.sums = make([]float64, n)
	t.broken[0] = c(0)
	for i := 1; i < n; i++ {
		octave := (i - 1) / perOctave
		part := (i - 1) % perOctave
		t.ages[i] = math.Ldexp(1+float64(part)/perOctave, youngest+octave)
		t.broken[i] = c(t.ages[i])
		t.sums[i] = t.sums[i-1] + (t.ages[i]-t.ages[i-1])*(t.broken[i-1]+t.broken[i])/2
	}
	return t
}

// cell returns the index of the last age of the table up to an age.
func (t *table) cell(age float64) int {
	const (
		mantissa = 52
		bias     = 1023
	)
	// The exponent and the first bits of the mantissa count the cells.
	i := int(math.Float64bits(age)>>(mantissa-mantissaBits)) - (bias+youngest)*perOctave + 1
	return min(max(0, i), len(t.ages)-2)
}

// at returns the curve at an age, which is not negative.
func (t *table) at(age float64) float64 {
	if age >= t.oldest {
		return t.end
	}
	i := t.cell(age)
	slope := (t.broken[i+1] - t.broken[i]) / (t.ages[i+1] - t.ages[i])
	return t.broken[i] + slope*(age-t.ages[i])
}

// integral returns the integral of the curve from 0 to an age, which is not negative.
func (t *table) integral(age float64) float64 {
	if age > t.oldest {
		return t.within(t.oldest) + (age-t.oldest)*t.end
	}
	return t.within(age)
}

// within returns the integral up to an age within the cells.
func (t *table) within(age float64) float64 {
	i := t.cell(age)
	x := age - t.ages[i]
	slope := (t.broken[i+1] - t.broken[i]) / (t.ages[i+1] - t.ages[i])
	return t.sums[i] + x*(t.broken[i]+slope*x/2)
}
