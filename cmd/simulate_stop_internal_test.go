package cmd

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
)

// stopped simulates what is stopped before it has begun.
func stopped(t *testing.T, o SimulateOptions) (out string, err error) {
	t.Helper()
	config := filepath.Join(t.TempDir(), "schedule.yaml")
	if err := os.WriteFile(config, []byte("tiers: [{max_age: 1d, every: 5m}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var b bytes.Buffer
	o.From, o.Success = firstMonday, 1
	if o.Diff != "" {
		o.Diff = config
	}
	err = runSimulate(ctx, o, &globalOptions{Config: config, out: &b, err: &b}, new(pflag.FlagSet))
	return b.String(), err
}

// A stop never passes a part for the whole, nor nothing for zeros.
func TestSimulateStopped(t *testing.T) {
	picture := filepath.Join(t.TempDir(), "calls.svg")
	for _, w := range []WorkloadOptions{
		{}, {Diff: "schedule.yaml"}, {Compare: "progressive,fibonacci"}, {CSV: true}, {CallTime: time.Second}, {Plot: picture},
	} {
		w.Arrivals = "100/h"
		for _, json := range []bool{false, true} {
			out, err := stopped(t, SimulateOptions{WorkloadOptions: w, dataFlags: dataFlags{JSON: json && !w.CSV}, Attempts: 1})
			if err == nil || err.Error() != "stopped: there are no figures yet" || out != "" {
				t.Errorf("%+v: %v, %q", w, err, out)
			}
		}
	}
	if _, err := os.Stat(picture); err == nil {
		t.Error("an empty picture is left behind")
	}
	const reading = "stopped after 0 pending rows of the table: there are no figures yet"
	if out, err := stopped(t, SimulateOptions{Live: true, Assume: "fail", Attempts: 1}); err == nil || err.Error() != reading || out != "" {
		t.Errorf("while it reads the table: %v, %q", err, out)
	}
	for _, c := range []struct {
		json bool
		want string
	}{
		{want: "Stopped: the figures are incomplete.\n\nA record inserted at"},
		{json: true, want: `"total":0,"expires":"2026-01-06T00:00:00Z","given_up":false,"complete":false}`},
	} {
		o := SimulateOptions{Life: true, Inserted: firstMonday, Attempts: 1, dataFlags: dataFlags{JSON: c.json}}
		out, err := stopped(t, o)
		if exitStatus(err) != exitFailed || !strings.Contains(err.Error(), errIncomplete.Error()) {
			t.Errorf("%+v: %v, want %v", c, err, errIncomplete)
		}
		if !strings.Contains(out, c.want) || strings.Contains(out, "older than every tier") {
			t.Errorf("%+v: %q, want %q", c, out, c.want)
		}
	}
}
