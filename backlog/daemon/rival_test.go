package daemon_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"backlog/backlog"
)

// Beside a leader of another configuration a daemon stands by only if that is to be replaced, was the
// same before, or is another version of the same file, which has ten minutes to become the same. It says so
// every five minutes.
func TestRivals(t *testing.T) {
	other := &backlog.Rival{Differs: []string{"where"}}
	version := &backlog.Rival{Differs: []string{"where"}, SameFile: true}
	after := func(same time.Duration, differs error) func(time.Duration) error {
		return func(at time.Duration) error {
			if at < same {
				return backlog.ErrLocked
			}
			return differs
		}
	}
	mentioned := []string{"0s z: standby beside where", "5m0s z: standby after 4m58s beside where"}
	for _, x := range []struct {
		name    string
		replace bool
		held    func(time.Duration) error
		ends    time.Duration // with the rival; 0: never
		story   []string
	}{
		{"another one", false, after(0, other), -1, nil},
		{"another one to be replaced", true, after(0, other), 0, append(mentioned, "10m0s z: standby after 9m58s beside where", "10m59s z: waiting")},
		{"another one that was the same", false, after(time.Minute, other), 0, []string{
			"0s z: standby", "1m0s z: standby after 58s beside where", "6m0s z: standby after 5m58s beside where", "10m59s z: waiting",
		}},
		{"another version", false, after(0, version), 10 * time.Minute, append(mentioned, "10m0s z: waiting")},
		{"another version that becomes the same", false, func(at time.Duration) error {
			if at < 9*time.Minute {
				return version
			}
			return backlog.ErrLocked
		}, 0, append(mentioned, "10m59s z: waiting")},
		{"away in between", true, func(at time.Duration) error {
			if at >= time.Minute && at < 2*time.Minute {
				return backlog.ErrUnavailable
			}
			return other
		}, 0, []string{
			"0s z: standby beside where", "1m0s z: unavailable after 58s", "2m0s z: standby after 58s",
			"5m0s z: standby after 4m58s beside where", "10m0s z: standby after 9m58s beside where", "10m59s z: waiting",
		}},
	} {
		t.Run(x.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t)
				d := b.worker(&session{of: b, name: "z"}, time.Second)
				d.Replace = x.replace
				d.Leaders = lockers(func() error { return x.held(time.Since(b.began)) })
				ended := b.run(d, 11*time.Minute-time.Second)
				if _, refused := errors.AsType[*backlog.Rival](ended); refused != (x.ends != 0) || ended != nil && time.Since(b.began) != max(0, x.ends) {
					t.Errorf("it ends with %v after %v", ended, time.Since(b.began))
				}
				b.wantStory(x.story...)
			})
		})
	}
}

// Who has led stays beside another configuration that has taken its place.
func TestRivalOfALeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		z := &session{of: b, name: "z"}
		d := b.worker(z, time.Second)
		d.Leaders = lockerFunc(func(ctx context.Context, name string) (backlog.Lock, error) {
			if time.Since(b.began) < time.Minute {
				return z.TryLock(ctx, name)
			}
			return nil, &backlog.Rival{Differs: []string{"handler"}}
		})
		time.AfterFunc(time.Minute+time.Second, z.end)
		if err := b.run(d, 2*time.Minute); err != nil {
			t.Error(err)
		}
		b.wantStory("0s z: leader", "1m2s z: demoted", "1m2s z: waiting", "1m2s z: standby beside handler", "2m0s z: waiting")
	})
}
