package simulate

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"backlog/tiers"
)

// maxRecords is how many records a workload may have.
const maxRecords = 20_000_000

// SetArrivals reads how many records come in: 1000/h, or 1000/h,regular.
func (w *Workload) SetArrivals(text string) error {
	rate, kind, _ := strings.Cut(text, ",")
	switch kind = strings.TrimSpace(kind); kind {
	case "", "poisson":
	case "regular":
		w.Regular = true
	default:
		return fmt.Errorf("%q is neither poisson nor regular", kind)
	}
	n, per, err := tiers.ParseRate(rate)
	if err != nil {
		return fmt.Errorf("%q %w", rate, err)
	}
	w.PerHour = n * (time.Hour.Seconds() / per.Seconds())
	if n := w.PerHour * w.To.Sub(w.From).Hours(); n > maxRecords {
		return fmt.Errorf("%.0f records are too many; 20,000,000 are the most", n)
	}
	return nil
}

// ParseShare returns a number from 0 to 1, which may be written in percent.
func ParseShare(text string) (float64, error) {
	number, percent := strings.CutSuffix(text, "%")
	n, err := strconv.ParseFloat(number, 64)
	if percent {
		n /= 100
	}
	if err != nil || !(n >= 0 && n <= 1) {
		return 0, fmt.Errorf("%q is not from 0 to 1; write it as in 0.02 or 2%%", text)
	}
	return n, nil
}

// ParsePeriods reads times that are written as when they begin, counted from
// the beginning of the workload, and how long they last: 6h+2h.
func (w *Workload) ParsePeriods(texts []string) (list []Outage, err error) {
	whole := w.To.Sub(w.From)
	for _, text := range texts {
		start, lasting, ok := strings.Cut(text, "+")
		from, err := tiers.ParseDuration(start)
		length, err2 := tiers.ParseDuration(lasting)
		if !ok || err != nil || err2 != nil || from < 0 || length <= 0 || length > math.MaxInt64-from {
			return nil, fmt.Errorf("%q is no start and length; write it as in 6h+2h", text)
		}
		if from >= whole {
			return nil, fmt.Errorf("%q begins when all is over, after %s; let it begin sooner or --for be longer", text, tiers.FormatDuration(whole))
		}
		list = append(list, Outage{From: w.From.Add(from), To: w.From.Add(from + length)})
	}
	return list, nil
}

// Assume completes the workload by how attempts at its records end: fail,
// succeed, p=SHARE or outage=LENGTH.
func (w *Workload) Assume(text string) (err error) {
	how, value, _ := strings.Cut(text, "=")
	w.Success = 1
	switch {
	case text == "fail":
		w.Poison, w.Success = 1, 0
	case text == "succeed":
	case how == "p":
		w.Success, err = ParseShare(value)
	case how == "outage":
		d, err := tiers.ParseDuration(value)
		if err != nil || d <= 0 {
			return fmt.Errorf("%q is not a duration; write it as in outage=2h", value)
		}
		w.Outages = []Outage{{From: w.From, To: w.From.Add(d)}}
	default:
		return fmt.Errorf("%q is not one of fail, succeed, p=0.3, outage=2h", text)
	}
	return err
}

// SplitOutside splits at the commas that are in no brackets, and trims the items.
func SplitOutside(list string) (items []string) {
	count := func(item, a, b string) int { return strings.Count(item, a) + strings.Count(item, b) }
	item := ""
	for part := range strings.SplitSeq(list, ",") {
		if item += part; count(item, "[", "{") > count(item, "]", "}") {
			item += ","
			continue
		}
		items, item = append(items, strings.TrimSpace(item)), ""
	}
	if item != "" { // a bracket is open
		items = append(items, strings.TrimSpace(item))
	}
	return items
}
