package advise

import (
	"bytes"
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"testing"
)

// A script without EM finds the same rates, and by many more ages the same chances.
func TestLikelihood(t *testing.T) {
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("there is no python3")
	}
	type exposed struct {
		Tried     float64            `json:"tried"`
		Succeeded float64            `json:"succeeded"`
		Share     map[string]float64 `json:"share"`
	}
	var question struct {
		Segments  int       `json:"segments"`
		Exposures []exposed `json:"exposures"`
		Ends      []float64 `json:"ends"`
		Curve     []float64 `json:"curve"`
		Pieces    [][]any   `json:"pieces"`
	}
	random := rand.New(rand.NewPCG(1978, 0))
	question.Segments = 6
	var list []*exposure
	var succeeded []float64
	for i := range 20 {
		e := &exposure{trials: trials{tried: 1000}}
		x := exposed{Tried: 1000, Share: make(map[string]float64)}
		hazard := 0.0
		for k := i % 5; k < min(6, i%5+1+i%3); k++ {
			seconds := 50 + 200*random.Float64()
			e.share = append(e.share, segmentShare{k, seconds})
			x.Share[strconv.Itoa(k)] = seconds
			hazard += seconds * 0.001 * float64(k+1)
		}
		x.Succeeded = math.Round(1000 * (1 - math.Exp(-hazard)))
		question.Exposures = append(question.Exposures, x)
		list = append(list, e)
		succeeded = append(succeeded, x.Succeeded)
	}
	c := newCurve(600)
	rates := make([]float64, len(c.ends))
	for k := range rates {
		rates[k] = 1 / (3600 * float64(k+1))
	}
	rates[0] = 1.5
	c.set(rates)
	question.Ends = append([]float64{}, c.ends...)
	question.Ends[len(c.ends)-1] = 1e12
	question.Curve = rates
	pieces := []piece{
		{low: 0, high: 60, first: true},
		{low: 120, high: 290, first: true},
		{low: 300, high: 600, waited: 300},
		{low: 10800, high: 21600, waited: 300},
		{low: 86400, high: 172800, waited: 3600},
		{low: 604800, high: 1209600, waited: 43200},
	}
	for _, p := range pieces {
		question.Pieces = append(question.Pieces, []any{p.low, p.high, p.waited, p.first})
	}
	var answer struct {
		Rates []float64 `json:"rates"`
		Fails []float64 `json:"fails"`
	}
	input, err := json.Marshal(question)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("python3", "testdata/likelihood.py")
	cmd.Stdin = bytes.NewReader(input)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(out, &answer); err != nil {
		t.Fatal(err)
	}
	ours := maximize(list, succeeded, []float64{1, 1, 1, 1, 1, 1})
	for k, rate := range ours {
		if math.Abs(rate-answer.Rates[k]) > 1e-3*answer.Rates[k] {
			t.Errorf("rate %d is %v, not %v", k, rate, answer.Rates[k])
		}
	}
	for i, p := range pieces {
		e := &exposure{pieces: []piece{p}}
		c.weigh(e)
		if math.Abs(e.hazard+math.Log(answer.Fails[i])) > 2e-3*e.hazard {
			t.Errorf("piece %d: the hazard is %v, not %v", i, e.hazard, -math.Log(answer.Fails[i]))
		}
	}
}

// What is drawn has the mean and the variance of a binomial distribution.
func TestBinomial(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, c := range []struct{ n, p float64 }{{0, 0.5}, {10, 0}, {10, 1}, {10, 0.3}, {40, 0.9}, {1e5, 1e-4}, {1e4, 0.4}} {
		const times = 20000
		sum := 0.0
		squares := 0.0
		mean := c.n * c.p
		for range times {
			k := binomial(random, c.n, c.p)
			if k < 0 || k > c.n || k != math.Trunc(k) {
				t.Fatalf("%v of %v", k, c.n)
			}
			sum += k - mean
			squares += square(k - mean)
		}
		variance := mean * (1 - c.p)
		if math.Abs(sum/times) > 5*math.Sqrt(variance/times) || math.Abs(squares/times-variance) > 0.06*variance {
			t.Errorf("of %v by %v: %v off the mean, variance %v, not %v", c.n, c.p, sum/times, squares/times, variance)
		}
	}
}
