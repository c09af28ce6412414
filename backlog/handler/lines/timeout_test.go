package lines

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"backlog/backlog"
)

// What is late, and when, with a worker that is not there: only the pace counts.
func TestLinesPace(t *testing.T) {
	type step struct {
		wait   time.Duration
		give   string // an attempt
		answer string
	}
	const s = time.Second
	for _, tt := range []struct {
		name  string
		steps []step
		after time.Duration // when the worker is ended; 0: never
		text  string
	}{
		{name: "nothing to do", after: 0},
		{
			name:  "silent",
			steps: []step{{give: "a"}},
			after: 30 * s,
			text:  "timed out after 30s: the worker answered nothing (does it flush its output?)",
		},
		{
			name:  "idle before",
			steps: []step{{wait: 100 * s, give: "a"}},
			after: 130 * s,
			text:  "timed out after 30s: the worker answered nothing (does it flush its output?)",
		},
		{
			name:  "idle between",
			steps: []step{{give: "a"}, {wait: 5 * s, answer: "a"}, {wait: 100 * s, give: "b"}},
			after: 135 * s,
			text:  "timed out after 30s: the worker answered nothing (does it flush its output?)",
		},
		{name: "answered at the last moment", steps: []step{{give: "a"}, {wait: 29 * s, answer: "a"}}, after: 0},
		{
			name:  "each has its time",
			steps: []step{{give: "a"}, {give: "b"}, {give: "c"}, {wait: 29 * s, answer: "a"}, {wait: 29 * s, answer: "b"}, {wait: 29 * s, answer: "c"}},
			after: 0,
		},
		{
			name:  "silent after the first",
			steps: []step{{give: "a"}, {give: "b"}, {wait: 20 * s, answer: "a"}},
			after: 50 * s,
			text:  "timed out after 30s: the worker answered nothing (does it flush its output?)",
		},
		{
			name:  "one is left lying",
			steps: []step{{give: "a"}, {give: "b"}, {give: "c"}, {wait: 20 * s, answer: "b"}, {give: "d"}, {wait: 9 * s, answer: "c"}, {give: "e"}},
			after: 59 * s,
			text:  "timed out after 30s: the worker answered nothing (does it flush its output?)",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				l := &Handler{Timeout: 30 * time.Second}
				w := newWorker(l)
				for _, step := range tt.steps {
					time.Sleep(step.wait)
					if step.give != "" {
						l.mu.Lock()
						w.assign(&task{attempt: step.give, done: make(chan error, 1)})
						l.mu.Unlock()
					}
					if step.answer != "" {
						w.resolve(step.answer, nil, nil)
					}
				}
				select {
				case <-w.terminateCtx.Done():
				case <-time.After(time.Hour):
				}
				if tt.after == 0 {
					if w.terminateCtx.Err() != nil {
						t.Errorf("%v", context.Cause(w.terminateCtx))
					}
					return
				}
				if got := time.Since(began); got != tt.after {
					t.Errorf("ended after %v, want %v", got, tt.after)
				}
				if err := context.Cause(w.terminateCtx); err.Error() != tt.text || !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("%q, want %q", err, tt.text)
				}
			})
		})
	}
}

// The pauses between starts grow, and those who wait can be stopped.
func TestLinesPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &Handler{Settings: Settings{Command: []string{"/no/such/program"}}}
		r := &backlog.Record{Key: backlog.NewKey(int64(1))}
		want := time.Duration(0)
		for range 12 {
			began := time.Now()
			err := l.Handle(t.Context(), r)
			if backlog.OutcomeOf(err) != backlog.Skipped || err.Error() != "lines: /no/such/program does not exist; correct the path or the working directory" {
				t.Fatalf("error %v", err)
			}
			if got := time.Since(began); got != want {
				t.Fatalf("tried again after %v, want %v", got, want)
			}
			want = min(max(2*want, 100*time.Millisecond), 30*time.Second)
		}

		cause := errors.New("stopped")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, cause)
		defer cancel()
		began := time.Now()
		if err := l.Handle(ctx, r); !errors.Is(err, cause) || time.Since(began) != time.Second {
			t.Errorf("%v after %v, want the cause after 1s", err, time.Since(began))
		}

		// All who wait for the one worker hear that there will be none.
		began = time.Now()
		answers := make(chan error)
		for range 100 {
			go func() { answers <- l.Handle(t.Context(), r) }()
		}
		for range 100 {
			if err := <-answers; backlog.OutcomeOf(err) != backlog.Skipped {
				t.Errorf("error %v", err)
			}
		}
		if got := time.Since(began); got > 30*time.Second {
			t.Errorf("100 waited for %v", got)
		}

		// Close does not wait for the pause to be over.
		go func() { answers <- l.Handle(t.Context(), r) }()
		synctest.Wait()
		began = time.Now()
		if err := l.Close(); err != nil || time.Since(began) != 0 {
			t.Errorf("closed after %v: %v", time.Since(began), err)
		}
		if err := <-answers; !errors.Is(err, errClosed) || backlog.OutcomeOf(err) != backlog.Skipped {
			t.Errorf("error %v", err)
		}
	})
}

// A pause is for all workers: a program that fails is not started at once in the
// place of another.
func TestLinesOnePauseForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &Handler{Settings: Settings{Command: []string{"/no/such/program"}, Workers: 3}}
		began := time.Now()
		for range 3 {
			l.Handle(t.Context(), &backlog.Record{Key: backlog.NewKey(int64(1))})
		}
		if got := time.Since(began); got != 300*time.Millisecond {
			t.Errorf("three starts in %v, want pauses of 100 and 200 ms", got)
		}
	})
}
