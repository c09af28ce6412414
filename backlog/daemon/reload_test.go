package daemon_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// Reloads that are asked for close together are one: a second after the last of them, at
// the latest ten seconds after the first.
func TestReloadsAfterQuiet(t *testing.T) {
	for _, x := range []struct {
		signals int
		every   time.Duration
		want    []time.Duration // since the first signal
	}{
		{1, 0, []time.Duration{time.Second}},
		{3, 900 * time.Millisecond, []time.Duration{2800 * time.Millisecond}},
		{2, 1100 * time.Millisecond, []time.Duration{time.Second, 2100 * time.Millisecond}},
		{100, 99 * time.Millisecond, []time.Duration{10 * time.Second}},
		{150, 99 * time.Millisecond, []time.Duration{10 * time.Second, 15751 * time.Millisecond}},
	} {
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t)
			d := b.daemon(nil)
			began := time.Now()
			var got []time.Duration
			d.Reconfigure = func(context.Context) { got = append(got, time.Since(began)) }
			stop := b.start(d)
			for range x.signals {
				d.Reload()
				time.Sleep(x.every)
			}
			time.Sleep(time.Minute)
			stop()
			if !slices.Equal(got, x.want) {
				t.Errorf("%d signals, one every %v: reloads after %v, want %v", x.signals, x.every, got, x.want)
			}
		})
	}
}

// A stop while more requests are waited for is a stop.
func TestReloadsStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		d := b.daemon(nil)
		d.Reconfigure = func(context.Context) { t.Error("it reloads") }
		ctx, cancel := context.WithTimeout(t.Context(), time.Second/2)
		defer cancel()
		d.Reload()
		if err := d.Run(ctx); err != nil {
			t.Error(err)
		}
	})
}
