package advise

import (
	"encoding/csv"
	"encoding/json"
	"io"
	"math"
	"slices"
	"strconv"
	"time"
)

// Learned is what a [Model] says, as JSON has it.
type Learned struct {
	From       *time.Time `json:"from"` // null: there are no passes
	To         *time.Time `json:"to"`
	Days       float64    `json:"days"`
	Passes     int        `json:"passes"`
	Records    int        `json:"records"` // first attempts
	Attempts   int        `json:"attempts"`
	Recoveries int        `json:"recoveries"` // successes of records that had failed before
	Changed    *time.Time `json:"changed"`    // the day since which behaviour is as it is; null: always
	LeftOut    LeftOut    `json:"left_out"`   // passes, or lines of files

	FirstFailures Estimate       `json:"first_failures"`  // share of all records
	BrokenForGood Estimate       `json:"broken_for_good"` // share of the first failures
	Oldest        float64        `json:"oldest_age_seconds"`
	StillBroken   []StillBroken  `json:"still_broken"`
	Outages       OutagesLearned `json:"outages"`
}

// StillBroken is the share of the recoverable first failures that are still broken at an age.
type StillBroken struct {
	Age      float64 `json:"age_seconds"`
	Share    float64 `json:"share"`
	Low      float64 `json:"low"` // the ends of its 90 % interval
	High     float64 `json:"high"`
	Attempts int     `json:"attempts"` // in the band of ages that ends there
}

// OutagesLearned says how often there are outages, and how long they last.
type OutagesLearned struct {
	Count   int     `json:"count"`
	PerWeek float64 `json:"per_week"`
	Median  float64 `json:"median_seconds"`
	Longest float64 `json:"longest_seconds"`
}

// Learned returns what the model says.
func (m *Model) Learned() Learned {
	l := Learned{
		Days:          round(m.Days),
		Passes:        m.Passes,
		Records:       m.Records,
		Attempts:      m.Attempts,
		Recoveries:    m.Recoveries,
		LeftOut:       m.LeftOut,
		FirstFailures: m.FirstFailures,
		BrokenForGood: m.BrokenForGood,
		Oldest:        m.Oldest.Seconds(),
		StillBroken:   []StillBroken{},
		Outages:       m.outagesLearned(),
	}
	if !m.From.IsZero() {
		l.From = &m.From
		l.To = &m.To
	}
	if !m.Changed.IsZero() {
		l.Changed = &m.Changed
	}
	for _, p := range m.StillBroken {
		l.StillBroken = append(l.StillBroken, StillBroken{
			Age:      p.Age.Seconds(),
			Share:    round(p.Share.Value),
			Low:      round(p.Share.Low),
			High:     round(p.Share.High),
			Attempts: p.Attempts,
		})
	}
	return l
}

// LongestOutage returns how long the longest outage lasted; 0: there was none.
func (m *Model) LongestOutage() time.Duration {
	longest := time.Duration(0)
	for _, o := range m.Outages {
		longest = max(longest, o.To.Sub(o.From))
	}
	return longest
}

// outagesLearned sums up the outages.
func (m *Model) outagesLearned() OutagesLearned {
	if len(m.Outages) == 0 {
		return OutagesLearned{}
	}
	var lengths []float64
	for _, o := range m.Outages {
		lengths = append(lengths, o.To.Sub(o.From).Seconds())
	}
	slices.Sort(lengths)
	learned := OutagesLearned{
		Count:   len(lengths),
		Median:  lengths[len(lengths)/2],
		Longest: lengths[len(lengths)-1],
	}
	if m.Days > 0 {
		learned.PerWeek = round(float64(len(lengths)) / m.Days * 7)
	}
	return learned
}

// digits is to how many significant digits figures are rounded for people and programs.
const digits = 6

// round rounds a figure.
func round(x float64) float64 {
	if x == 0 || math.IsInf(x, 0) || math.IsNaN(x) {
		return x
	}
	scale := math.Pow(10, digits-1-math.Floor(math.Log10(math.Abs(x))))
	return math.Round(x*scale) / scale
}

// A Number is a float64 whose JSON is rounded to six significant digits. What is infinite is null.
type Number float64

// MarshalJSON implements [json.Marshaler].
func (n Number) MarshalJSON() ([]byte, error) {
	x := round(float64(n))
	if math.IsInf(x, 0) || math.IsNaN(x) {
		return []byte("null"), nil
	}
	return json.Marshal(x)
}

// MarshalJSON implements [json.Marshaler].
func (e Estimate) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Value Number `json:"value"`
		Low   Number `json:"low"`
		High  Number `json:"high"`
	}{Number(e.Value), Number(e.Low), Number(e.High)})
}

// WriteCSV writes a header, and a line for each age of StillBroken.
func (l *Learned) WriteCSV(out io.Writer) error {
	w := csv.NewWriter(out)
	w.Write([]string{"age_seconds", "share", "low", "high", "attempts"})
	number := func(x float64) string { return strconv.FormatFloat(x, 'f', -1, 64) }
	for _, p := range l.StillBroken {
		w.Write([]string{number(p.Age), number(p.Share), number(p.Low), number(p.High), strconv.Itoa(p.Attempts)})
	}
	w.Flush()
	return w.Error()
}
