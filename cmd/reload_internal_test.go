package cmd

import (
	"context"
	"os"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// Signals that come close together are one reload: a second after the last of them, at
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
			ctx, cancel := context.WithCancel(t.Context())
			hup, began, got := make(chan os.Signal, 1), time.Now(), []time.Duration(nil)
			go reloads(ctx, hup, func(context.Context) { got = append(got, time.Since(began)) })
			for range x.signals {
				hup <- syscall.SIGHUP
				time.Sleep(x.every)
			}
			time.Sleep(time.Minute)
			cancel()
			synctest.Wait()
			if !slices.Equal(got, x.want) {
				t.Errorf("%d signals, one every %v: reloads after %v, want %v", x.signals, x.every, got, x.want)
			}
		})
	}
}

// A stop while more signals are waited for is a stop.
func TestReloadsStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		hup := make(chan os.Signal, 1)
		hup <- syscall.SIGHUP
		time.AfterFunc(time.Second/2, cancel)
		reloads(ctx, hup, func(context.Context) { t.Error("it reloads") })
	})
}
