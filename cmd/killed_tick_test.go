package cmd_test

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"
)

// eightDays is the interval of the rarest tier: a tick that is forgotten comes back after so
// long.
const eightDays = 192 * time.Hour

// TestKilledTick kills the program in the middle of the pass of a tier that ticks every eight
// days, several times. Each next start goes on with that tier, until a pass has ended.
func TestKilledTick(t *testing.T) {
	t.Parallel()
	seconds := int64(eightDays.Seconds())
	tick := time.Unix(time.Now().Unix()/seconds*seconds, 0).UTC()
	at := func(later time.Duration) string { return tick.Add(later).Format(time.RFC3339) }
	for _, mode := range []struct {
		name  string
		state string
		start func(life int) []string
	}{
		{"run", fmt.Sprintf(`{"last_wake": %q}`, at(-time.Hour)), func(int) []string { return []string{"run"} }},
		// A first start, which has no state file, finds the ticks of the last minute.
		{"once --due", "", func(life int) []string {
			return []string{"once", "--due", "--wait", "30s", "--now", at(time.Duration(life) * 10 * time.Minute)}
		}},
	} {
		t.Run(mode.name, func(t *testing.T) {
			onSites(t, siteKinds, func(t *testing.T, kind *siteKind) {
				s := newSite(t, kind, nil)
				s.write("schedule.yaml", fmt.Sprintf("database: %s\nstate: state.json\n"+
					"handler: {exec: [sh, -c, 'echo $BACKLOG_TIER >>handled.log; sleep 0.05'], concurrency: 2}\n"+
					"tiers: [{max_age: 1d, every: 96h}, {max_age: 30d, every: %v}]\n", s.url(nil), eightDays))
				if mode.state != "" {
					s.write("state.json", mode.state)
				}
				since := time.Since(tick)
				s.fill(24, func(int) string { return "NEW" }, func(i int) time.Duration { return since + time.Duration(i)*time.Hour })
				life := 0
				for _, handled := range []int{1, 4, 9} {
					d := s.start(mode.start(life)...)
					life++
					if !eventually(func() bool { return strings.Count(s.read("handled.log"), "\n") >= handled || d.hasEnded() }) || d.hasEnded() {
						t.Fatalf("life %d: %d records are handled, %d wanted:\n%s", life, strings.Count(s.read("handled.log"), "\n"), handled, d.log)
					}
					d.signal(syscall.SIGKILL)
					<-d.end
				}
				d := s.start(mode.start(life)...)
				if !eventually(func() bool { return s.count("SUCCESS") == 24 }) {
					t.Fatalf("%d of 24 records are done:\n%s", s.count("SUCCESS"), d.log)
				}
				if mode.name == "run" {
					d.says(`"msg":"pass ended"`)
					d.signal(syscall.SIGTERM)
				}
				d.ends()
				if log := s.read("handled.log"); strings.Contains(log, "1d") {
					t.Errorf("want the records handled by the tier that ticked, got\n%s", log)
				}
				if state := s.read("state.json"); strings.Contains(state, "unfinished") {
					t.Errorf("want nothing unfinished after a whole pass, got\n%s", state)
				}
			})
		})
	}
}

// TestKilledLeader kills a leader in the middle of such a pass. The standby that takes over goes on
// with it, whether it has the leader's state file or, as on another machine, one of its own.
func TestKilledLeader(t *testing.T) {
	t.Parallel()
	for _, own := range []bool{false, true} {
		t.Run(fmt.Sprintf("own state %t", own), func(t *testing.T) {
			onSites(t, siteKinds, func(t *testing.T, kind *siteKind) {
				s := newSite(t, kind, nil)
				text := fmt.Sprintf("database: %s\nstate: state.json\n"+
					"handler: {exec: [sh, -c, 'echo $BACKLOG_TIER >>handled.log; sleep 0.3'], concurrency: 2}\n"+
					"tiers: [{max_age: 1d, every: 96h}, {max_age: 30d, every: %v}]\n", s.url(nil), eightDays)
				s.write("schedule.yaml", text)
				other := "schedule.yaml"
				if own {
					other = "other.yaml"
					s.write(other, strings.Replace(text, "state.json", "other.json", 1))
				}
				s.write("state.json", `{"last_wake": "2025-01-01T00:00:00Z"}`)
				s.fill(24, func(int) string { return "NEW" }, func(i int) time.Duration { return time.Duration(i) * time.Hour })
				leader := s.start("run")
				if !eventually(func() bool { return strings.Contains(s.read("handled.log"), "30d") }) {
					t.Fatalf("no record is handled:\n%s", leader.log)
				}
				standby := s.start("run", "--config", other)
				standby.says(`"msg":"standing by: another daemon leads"`)
				leader.signal(syscall.SIGKILL)
				<-leader.end
				if n := s.count("SUCCESS"); n == 24 {
					t.Fatal("the pass was over before the kill")
				}
				if !eventually(func() bool { return s.count("SUCCESS") == 24 }) {
					t.Fatalf("%d of 24 records are done:\n%s", s.count("SUCCESS"), standby.log)
				}
				standby.signal(syscall.SIGTERM)
				standby.ends()
			})
		})
	}
}
