package backlog_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"backlog/backlog/memory"
)

// A fairness is a pass over 100,000 slow records, which holds all hands for
// hours, or two, and the five-minute tier beside them.
type fairness struct {
	wide  int    // how many such passes
	lane  string // the status of the many
	rate  float64
	fresh int // records that come for each tick
}

const (
	manyRecords = 100_000 // with numbers below it
	slowTakes   = time.Second
	slowHands   = 4
)

// Fresh records wait no longer than one call of a wide pass takes until they
// have a hand, and by a rate for its next turn besides; if there are many of
// them, the passes have as many turns each.
func TestWidePassDelaysNoFreshRecord(t *testing.T) {
	t.Parallel()
	for _, c := range []fairness{
		{1, "NEW", 0, 1}, {1, "ERROR", 0, slowHands}, {1, "ERROR", 0, 50},
		{1, "ERROR", 2, 1}, {1, "ERROR", 2, 50}, {1, "NEW", 0.5, 4},
		{2, "ERROR", 0, slowHands}, {2, "ERROR", 2, 10},
	} {
		t.Run(fmt.Sprintf("wide=%d/%s/rate=%v/fresh=%d", c.wide, c.lane, c.rate, c.fresh), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, memory.Options{}, slowly(slowTakes, succeed))
				b.Concurrency, b.Rate = slowHands, c.rate
				b.addMany(t, c.lane)
				until(59 * time.Minute)
				tiers := []string{"1d 5m", "7d 10m", "30d 1h"}
				stop := start(t, b.loop(schedule(t, tiers[:1+c.wide]...)))
				n := manyRecords
				for at := time.Hour + 15*time.Minute; at <= time.Hour+35*time.Minute; at += 5 * time.Minute {
					until(at - 20*time.Second) // amid calls of the others
					b.add(t, "NEW", n, c.fresh, 0)
					n += c.fresh
				}
				until(time.Hour + 39*time.Minute + 50*time.Second)
				stop()

				waits := b.waits()
				if len(waits) != n-manyRecords {
					t.Fatalf("want %d fresh records tried, got %d", n-manyRecords, len(waits))
				}
				for i, got := range waits {
					if most := c.wait(i % c.fresh); got > most {
						t.Errorf("want fresh record %d of a tick begun within %v, got it after %v", i%c.fresh+1, most, got)
					}
				}
				// Nothing is lost by sharing: there is a call at each turn.
				calls := b.calls.all()
				took := calls[len(calls)-1].at.Sub(calls[0].at)
				if most := int(took / c.turn()); len(calls) < most*99/100 {
					t.Errorf("want about %d calls in %v, got %d", most, took, len(calls))
				}
			})
		})
	}
}

// addMany inserts the records of the wide pass, two and more days old.
func (b *bench) addMany(t *testing.T, status string) {
	t.Helper()
	rows := make([]memory.Row, manyRecords)
	for i := range rows {
		rows[i] = memory.Row{Key: key(i), Status: status, Inserted: time.Now().Add(-2*day - time.Duration(i)*time.Second)}
	}
	if err := b.table.Insert(rows...); err != nil {
		t.Fatalf("Insert: %v", err)
	}
}

// turn is how often a call begins.
func (c fairness) turn() time.Duration {
	turn := slowTakes / slowHands
	if c.rate > 0 {
		turn = max(turn, time.Duration(float64(time.Second)/c.rate))
	}
	return turn
}

// wait is how long the i-th of a tick's fresh records may wait. The first ones
// have the hands that are free next, of each wide pass once; then every other
// turn, or third, is theirs: by a rate one by one, else as many at a time as
// there are hands.
func (c fairness) wait(i int) time.Duration {
	passes := time.Duration(c.wide + 1)
	if c.rate > 0 {
		return slowTakes + passes*time.Duration(i+1)*c.turn()
	}
	return time.Duration(c.wide)*slowTakes + passes*time.Duration(i/slowHands)*slowTakes
}

// waits returns how long after its tick each fresh record was handed out, in
// the order in which they were.
func (b *bench) waits() (list []time.Duration) {
	for _, c := range b.calls.all() {
		if c.id >= manyRecords {
			list = append(list, c.at.Sub(midnight)%(5*time.Minute))
		}
	}
	return list
}
