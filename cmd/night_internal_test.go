package cmd

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"backlog/backlog"
	"backlog/backlog/checkpoint"
	"backlog/backlog/config"
	"backlog/backlog/daemon"
	"backlog/backlog/logging"
	"backlog/backlog/memory"
	"backlog/backlog/reader"
	"backlog/backlog/watch"
)

// A bad night reads as few lines: an outage of two hours, 40 poison records, and a standby
// that takes over. `go test ./cmd -run TestNight -update` renews the recorded log.
func TestNight(t *testing.T) {
	const golden = "../testdata/golden/night.log"
	var log bytes.Buffer
	synctest.Test(t, func(t *testing.T) { night(t, &log) })
	text := regexp.MustCompile(`"version":"[^"]*"`).ReplaceAllString(log.String(), `"version":"v1"`)
	if flag.Lookup("update").Value.String() == "true" {
		if err := os.WriteFile(golden, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if text != string(want) {
		t.Errorf("the log is\n%s\nwant\n%s", text, want)
	}
	lines, warn := strings.Count(text, "\n"), strings.Count(text, "\n")-strings.Count(text, `"level":"INFO"`)
	if lines > 60 || warn > 12 {
		t.Errorf("%d lines at info and %d at warn, want at most 60 and 12", lines, warn)
	}
}

func night(t *testing.T, log *bytes.Buffer) {
	began := time.Now()
	table := memory.New(memory.Options{})
	add := func(n int, age time.Duration) {
		if err := table.Insert(memory.Row{Key: backlog.NewKey(int64(n)), Status: "NEW", Inserted: time.Now().Add(-age)}); err != nil {
			t.Error(err)
		}
	}
	for n := range 40 {
		add(n+1, 48*time.Hour)
	}
	deliver := backlog.HandlerFunc(func(_ context.Context, r *backlog.Record) error {
		id := r.Key.Part(0).(int64)
		switch at := time.Since(began); {
		case at >= time.Hour && at < 3*time.Hour-time.Minute:
			return errors.New("dial tcp 10.0.0.7:443: connect: connection refused")
		case id <= 40:
			return fmt.Errorf("550 no such user joe%d", id)
		}
		return nil
	})
	cfg, err := config.Load(strings.NewReader("database: postgres://shop@db/shop\nhandler: {exec: [./deliver.sh]}\nstate: none\ntiers: [{max_age: 1d, every: 5m}, {max_age: 7d, every: 1h}]\n"), "schedule.yaml", os.LookupEnv, knownSettings())
	if err != nil {
		t.Fatal(err)
	}
	var both sync.WaitGroup
	state := new(checkpoint.File) // of the machine on which both run
	begin := func(name string) (kill func()) {
		ctx, cancel := context.WithCancel(t.Context())
		l := slog.New(slog.NewJSONHandler(log, nil)).With("daemon", name)
		obs := logging.New(l)
		obs.OnOutage = func(c watch.Change, o watch.Outage, at time.Time) {
			counts, _ := table.Count(t.Context(), at, []time.Duration{7 * 24 * time.Hour})
			o.Pending = counts.Pending()
			obs.Outage(c, o, at)
		}
		shown := reader.New(reader.Options{Log: l, State: state, Picture: obs.Picture, Clock: time.Now}, new(reader.Settings))
		p := &process{
			g: &globalOptions{Config: "schedule.yaml"}, log: l, state: state,
			history: &history{Observer: obs, state: state}, pages: reader.NewServer(shown),
		}
		p.history.setup.Store(&setup{cfg: cfg, log: l})
		p.daemon = &daemon.Daemon{
			Loop: &backlog.Loop{
				Schedule: cfg.Tiers, Engine: &backlog.Engine{Store: table, Handler: deliver, Observe: obs.Observe},
				State: state, Locker: table, Observe: obs.Observe,
			},
			Leaders: table, Changed: p.changed,
		}
		both.Go(func() {
			if err := p.daemon.Run(ctx); err != nil {
				t.Error(err)
			}
		})
		return cancel
	}
	time.Sleep(time.Minute)
	killA := begin("a")
	synctest.Wait()
	killB := begin("b")
	time.Sleep(30 * time.Second) // records come between the ticks
	for n := 41; time.Since(began) < 4*time.Hour; n++ {
		add(n, 0)
		time.Sleep(time.Minute)
		if at := time.Since(began); at >= 3*time.Hour+32*time.Minute && killA != nil {
			killA()
			killA = nil
		}
	}
	killB()
	both.Wait()
}
