package cmd

import (
	"bufio"
	"encoding/csv"
	"strconv"
	"time"

	"backlog/backlog/simulate"
)

func (o *SimulateOptions) printWorkload(g *globals, w *simulate.Workload, all []simulated) error {
	switch {
	case o.JSON.on && o.Diff != "":
		return g.printDiffJSON(all[0], all[1], o.Seed)
	case o.JSON.on && o.Compare == "":
		return printJSON(g.out, workloadOf(all[0], o.Seed))
	case o.JSON.on:
		return printJSON(g.out, each(all, func(s simulated) workloadJSON { return workloadOf(s, o.Seed) }))
	case o.CSV:
		return g.printSeries(all)
	case o.Diff != "":
		return g.printDiff(all[0], all[1])
	}
	return g.printWorkload(w, all)
}

type workloadJSON struct {
	Policy    string       `json:"policy"`
	Seed      uint64       `json:"seed"`
	Records   int          `json:"records"`
	Attempts  int          `json:"attempts"`
	Succeeded int          `json:"succeeded"`
	Failed    int          `json:"failed"`
	Dead      int          `json:"dead"`
	Pending   int          `json:"pending"`
	Recovery  recoveryJSON `json:"recovery_seconds"`
	Recovered int          `json:"recovered"` // records, after the end of an outage
	Lost      int          `json:"lost"`      // records, in an outage or after it
	Peak      int          `json:"peak_per_minute"`
	Longest   float64      `json:"longest_pass_seconds"`
	Skipped   int          `json:"skipped_ticks"` // of tiers whose pass still ran
	Complete  bool         `json:"complete"`      // false: it was stopped
	Series    []bucketJSON `json:"series"`
}

type recoveryJSON struct {
	P50 float64 `json:"p50"`
	P95 float64 `json:"p95"`
	Max float64 `json:"max"`
}

type bucketJSON struct {
	At       stamp `json:"at"`
	Attempts int   `json:"attempts"`
	Failed   int   `json:"failed"`
	Dead     int   `json:"dead"`
	Pending  int   `json:"pending"`     // at the end
	Most     int   `json:"pending_max"` // at any time
}

func workloadOf(s simulated, seed uint64) workloadJSON {
	r := s.Report
	return workloadJSON{
		Policy: s.name, Seed: seed, Records: r.Records, Attempts: r.Attempts, Succeeded: r.Succeeded, Failed: r.Failed, Dead: r.Dead, Pending: r.Pending,
		Recovery:  recoveryJSON{r.RecoveryQuantile(0.5).Seconds(), r.RecoveryQuantile(0.95).Seconds(), r.RecoveryQuantile(1).Seconds()},
		Recovered: len(r.Recovery), Lost: r.Lost,
		Peak: r.PeakPerMinute, Longest: r.LongestPass.Seconds(), Skipped: r.SkippedTicks, Complete: r.Complete,
		Series: each(r.Series, func(b simulate.Bucket) bucketJSON {
			return bucketJSON{stamp(b.At), b.Attempts, b.Failed, b.Dead, b.Pending, b.Most}
		}),
	}
}

// printSeries prints a line for each bucket of each candidate.
func (g *globals) printSeries(all []simulated) error {
	out := bufio.NewWriter(g.out)
	w := csv.NewWriter(out)
	w.Write([]string{"policy", "at", "attempts", "failed", "dead", "pending", "pending_max"})
	for _, s := range all {
		for _, b := range s.Series {
			w.Write([]string{s.name, b.At.Format(time.RFC3339), strconv.Itoa(b.Attempts), strconv.Itoa(b.Failed), strconv.Itoa(b.Dead), strconv.Itoa(b.Pending), strconv.Itoa(b.Most)})
		}
	}
	w.Flush()
	if err := w.Error(); err != nil {
		return err
	}
	return out.Flush()
}
