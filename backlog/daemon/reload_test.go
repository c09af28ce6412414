package daemon_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"backlog/backlog"
	"backlog/tiers"
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

// A reload in the middle of a pass lets the running handler end. The rest of the pass goes on at once
// with the new schedule and the new handler, and the daemon leads all the time.
func TestReloadDuringAPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.add(1, 4)
		z := &session{of: b, name: "z"}
		d := b.worker(z, 10*time.Second)
		d.Reconfigure = func(context.Context) {
			b.tell("reloading")
			d.Swap(func() (*tiers.Schedule, *backlog.Engine) {
				if len(b.atWork) > 0 {
					t.Errorf("at work are %v", b.atWork)
				}
				b.tell("reloaded")
				return widest(t), b.engine(z, time.Minute)
			})
		}
		b.until(59 * time.Minute)
		stop := b.start(d)
		b.until(time.Hour + 12*time.Second)
		d.Reload()
		b.until(time.Hour + 30*time.Minute)
		stop()
		b.wantStory("59m0s z: leader", "1h0m0s z: pass 1d", "1h0m13s reloading", "1h0m20s z: 2 done", "1h0m20s reloaded",
			"1h0m20s z: pass 1d", "1h2m20s z: 2 done", "1h30m0s z: waiting")
	})
}

// What a standby reloads is what it leads with. The widest tier, of which a pass is owed at the take-over,
// is the new schedule's.
func TestReloadOfAStandby(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		a, z := &session{of: b, name: "a"}, &session{of: b, name: "z"}
		d := b.worker(z, time.Second)
		week, err := tiers.New(tiers.Tier{MaxAge: 7 * 24 * time.Hour, Every: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		d.Reconfigure = func(context.Context) {
			d.Swap(func() (*tiers.Schedule, *backlog.Engine) { return week, b.engine(z, time.Minute) })
		}
		stopA := b.start(b.worker(a, time.Second))
		synctest.Wait()
		stop := b.start(d)
		b.until(10 * time.Second)
		d.Reload()
		b.until(time.Minute + time.Second)
		stopA()
		b.until(2 * time.Minute)
		stop()
		b.wantStory("0s a: leader", "0s z: standby", "1m1s a: waiting", "1m2s z: taking over after 1m0s", "1m7s z: leader",
			"1m7s z: pass 7d", "1m7s z: 0 done", "2m0s z: waiting")
	})
}

// A stop while a reload waits for handlers: the daemon ends when they have ended, and starts nothing anew.
func TestStopDuringAReload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.add(1, 4)
		z := &session{of: b, name: "z"}
		d := b.worker(z, 10*time.Second)
		reloaded := false
		d.Reconfigure = func(ctx context.Context) {
			d.Swap(func() (*tiers.Schedule, *backlog.Engine) { return widest(t), b.engine(z, time.Minute) })
			time.Sleep(5 * time.Second)
			reloaded = ctx.Err() != nil
		}
		b.until(59 * time.Minute)
		stop := b.start(d)
		b.until(time.Hour + 12*time.Second)
		d.Reload()
		b.until(time.Hour + 15*time.Second)
		stop()
		b.wantStory("59m0s z: leader", "1h0m0s z: pass 1d", "1h0m20s z: 2 done", "1h0m20s z: waiting")
		if !reloaded {
			t.Error("it has ended before the reload")
		}
	})
}
