package amqp

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"backlog/backlog"
)

// The Ruby worker and we declare the same, in either order, and take turns with the
// attempts of a message: whoever fails it, the other counts on; whoever fails it last,
// it is redriven.
func TestRubyWorker(t *testing.T) {
	t.Parallel()
	const python = "/usr/bin/python3"
	if err := exec.Command(python, "-c", "import pika").Run(); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal(err)
		}
		t.Skip("Debian's python3-pika is not there")
	}
	s, b := newBroker(t)
	s.Declare = "all" // a difference is an error
	ruby := func(command string) string {
		t.Helper()
		c := exec.Command(python, "../../testdata/workers/sneakers_worker.py", command, s.Queue, "1")
		c.Env = append(os.Environ(), "AMQP_URL="+s.URL[0])
		out, err := c.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", command, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	ours := func() string {
		t.Helper()
		b.waitReady(s.Queue, 1)
		c := &Source{Settings: *s, MaxMessages: 1}
		defer c.Close()
		var seen string
		h := func(_ context.Context, r *backlog.Record) error {
			n, _ := r.Column("attempt")
			seen = fmt.Sprintf("%v %s", n, Body(r))
			return errBoom
		}
		e := &backlog.Engine{Store: c, Handler: backlog.HandlerFunc(h), Policy: c.Policy()}
		if r, err := e.Pass(t.Context(), backlog.Pass{MaxAge: time.Hour}); err != nil || !r.Complete || r.Failed != 1 {
			t.Fatalf("%+v %v", r, err)
		}
		return seen
	}
	const job, plain = `{"job": 1}`, "application/octet-stream"

	ruby("declare") // before us
	ruby("publish")
	// The content type is of the message while we alone have failed it: Bunny drops it.
	for n, got := range []string{ruby("fail"), ours(), ruby("fail"), ours(), ruby("fail"), ours()} {
		want := fmt.Sprintf("%d %s %s", n+1, plain, job)
		switch {
		case n%2 == 1:
			want = fmt.Sprintf("%d %s", n+1, job)
		case n == 0:
			want = "1 application/json " + job
		}
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	redrive := func() {
		t.Helper()
		b.waitReady(s.Queue+"-error", 1)
		c := NewInspector(*s)
		if n, err := c.Redrive(t.Context(), "", false); err != nil || n.Matched != 1 {
			t.Fatalf("%+v %v", n, err)
		}
	}
	redrive()
	for n, got := range []string{ours(), ruby("fail"), ours(), ruby("fail"), ours(), ruby("fail")} {
		want := fmt.Sprintf("%d %s", n+1, job)
		if n%2 == 1 {
			want = fmt.Sprintf("%d %s %s", n+1, plain, job)
		}
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	redrive()
	if got := ruby("fail"); got != "1 "+plain+" "+job {
		t.Errorf("redriven: %q", got)
	}
	ruby("declare") // after us
	c := source(t, s)
	c.Close()
}
