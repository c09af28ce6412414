package cmd

import (
	"cmp"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"backlog/backlog/simulate"
	"backlog/tiers"
)

// WorkloadOptions are the flags of simulate that model a workload.
type WorkloadOptions struct {
	Arrivals string
	Poison   string
	Success  string
	Outages  []string
	For      string
	From     string
	CallTime string
	Down     []string
	Compare  string
	Diff     string
	CSV      bool
	Plot     string
}

// firstMonday is where a simulation begins unless told otherwise: always at the
// same time, so that it always gives the same.
const firstMonday = "2026-01-05T00:00:00Z"

func (o *WorkloadOptions) AddFlags(f *pflag.FlagSet) {
	f.StringVar(&o.Arrivals, "arrivals", "", "model a workload in which so many records come in, such as `1000/h`; 1000/h,regular: evenly")
	f.StringVar(&o.Poison, "poison", "0", "`SHARE` of the records that never succeed, such as 1% or 0.01")
	f.StringVar(&o.Success, "success", "1", "`CHANCE` that an attempt at another succeeds, such as 98% or 0.98")
	f.StringArrayVar(&o.Outages, "outage", nil, "`START+LENGTH` of a time in which none succeeds, such as 6h+2h; may be repeated")
	f.StringVar(&o.For, "for", "", "how `LONG` it lasts (default: a workload 7d, --live 24h)")
	f.StringVar(&o.From, "from", firstMonday, "when it begins: `TIME`, RFC 3339")
	f.StringVar(&o.CallTime, "call-time", "0", "how long each call takes, `DURATION` such as 200ms, so that passes may overlap")
	f.StringArrayVar(&o.Down, "down", nil, "`START+LENGTH` of a time in which backlog itself does not run, such as 6h+2h; may be repeated")
	f.StringVar(&o.Compare, "compare", "", "compare `LIST` of policies and of files, separated by commas, on the same workload")
	f.StringVar(&o.Diff, "diff", "", "show only what would be different with the schedule and policy of `FILE`")
	f.StringVar(&o.Plot, "plot", "", "draw calls and what is pending into `FILE`.svg or .png")
	f.BoolVar(&o.CSV, "csv", false, "print the series as CSV")
}

// parse returns the workload.
func (o *WorkloadOptions) parse(seed uint64) (w *simulate.Workload, err error) {
	w = &simulate.Workload{Seed: seed}
	if w.From, err = parseMoment("--from", o.From); err != nil {
		return nil, err
	}
	length, err := parseLength(cmp.Or(o.For, "7d"), "30d")
	if err != nil {
		return nil, err
	}
	w.From = w.From.UTC()
	w.To = w.From.Add(length)
	rate, kind, _ := strings.Cut(o.Arrivals, ",")
	switch kind = strings.TrimSpace(kind); kind {
	case "", "poisson":
	case "regular":
		w.Regular = true
	default:
		return nil, usagef("--arrivals: %q is neither poisson nor regular", kind)
	}
	if w.PerHour, err = parseArrivals(rate); err != nil {
		return nil, err
	}
	if n := w.PerHour * length.Hours(); n > 20_000_000 {
		return nil, usagef("--arrivals: %.0f records are too many; 20,000,000 are the most", n)
	}
	if w.Poison, err = parseShare("--poison", o.Poison); err != nil {
		return nil, err
	}
	if w.Success, err = parseShare("--success", o.Success); err != nil {
		return nil, err
	}
	w.Outages, err = parsePeriods("--outage", o.Outages, w)
	return w, err
}

// parseMoment returns a time at which a simulation can begin.
func parseMoment(flag, text string) (time.Time, error) {
	t, err := parseTime(flag, text)
	if err == nil {
		err = checkYear(flag, t)
	}
	return t, err
}

// checkYear refuses what a hundred years later would be too late to be counted
// in nanoseconds, and anything near it.
func checkYear(flag string, t time.Time) error {
	if year := t.UTC().Year(); year < 1970 || year > 2100 {
		return usagef("%s: the year %d is too far away; a simulation takes one from 1970 to 2100", flag, year)
	}
	return nil
}

// parsePeriods returns times that are given by when they begin, counted from the
// beginning of the workload, and how long they last.
func parsePeriods(flag string, texts []string, w *simulate.Workload) (list []simulate.Outage, err error) {
	whole := w.To.Sub(w.From)
	for _, text := range texts {
		start, lasting, ok := strings.Cut(text, "+")
		from, err := tiers.ParseDuration(start)
		length, err2 := tiers.ParseDuration(lasting)
		if !ok || err != nil || err2 != nil || from < 0 || length <= 0 {
			return nil, usagef("%s: %q is no start and length; write it as in 6h+2h", flag, text)
		}
		if from >= whole {
			return nil, usagef("%s: %q begins when all is over, after %s; let it begin sooner or --for be longer", flag, text, tiers.FormatDuration(whole))
		}
		if length > math.MaxInt64-from {
			return nil, usagef("%s: %q is too long to be counted; to the end it is %s+%s", flag, text, tiers.FormatDuration(from), tiers.FormatDuration(whole-from))
		}
		list = append(list, simulate.Outage{From: w.From.Add(from), To: w.From.Add(from + length)})
	}
	return list, nil
}

// parseLength returns how long a simulation lasts. example is a good answer.
func parseLength(text, example string) (time.Duration, error) {
	d, err := tiers.ParseDuration(text)
	if err != nil || d < time.Minute || d > 100*365*24*time.Hour {
		return 0, usagef("--for: %q is not a duration from 1m to 36500d; write it as in %s (s, m, h, d or w)", text, example)
	}
	return d, nil
}

// parseCallTime returns how long a call takes.
func (o *WorkloadOptions) parseCallTime() (time.Duration, error) {
	d, err := tiers.ParseDuration(o.CallTime)
	if err != nil || d < 0 || d > 24*time.Hour {
		return 0, usagef("--call-time: %q is not a duration up to a day; write it as in 200ms", o.CallTime)
	}
	return d, nil
}

// parseArrivals returns a rate per hour.
func parseArrivals(text string) (float64, error) {
	number, unit, ok := strings.Cut(text, "/")
	n, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	per, known := map[string]float64{"s": 3600, "m": 60, "h": 1, "d": 1. / 24}[strings.TrimSpace(unit)]
	if !ok || err != nil || !known || !(n > 0) || math.IsInf(n, 0) {
		return 0, usagef("--arrivals: %q is no rate; write it as in 1000/h (s, m, h or d)", text)
	}
	return n * per, nil
}

// parseShare returns a number from 0 to 1, which may be written in percent.
func parseShare(flag, text string) (float64, error) {
	number, percent := strings.CutSuffix(text, "%")
	n, err := strconv.ParseFloat(number, 64)
	if percent {
		n /= 100
	}
	if err != nil || !(n >= 0 && n <= 1) {
		return 0, usagef("%s: %q is not from 0 to 1; write it as in 0.02 or 2%%", flag, text)
	}
	return n, nil
}

// bucketOf returns the width of the buckets of a series: about a hundred, of a
// length that people know.
func bucketOf(length time.Duration) time.Duration {
	for _, w := range []time.Duration{time.Minute, 5 * time.Minute, 15 * time.Minute, time.Hour, 3 * time.Hour, 6 * time.Hour, 24 * time.Hour, 7 * 24 * time.Hour} {
		if length <= 150*w {
			return w
		}
	}
	return 30 * 24 * time.Hour
}
