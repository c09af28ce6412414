package cmd_test

import (
	"os"
	"strings"
	"testing"
)

// A state file that cannot be written is found out, and so is a folder that
// cannot be created; nothing is left behind where one can.
func TestCheckOfState(t *testing.T) {
	s := newPrivateShop(t, map[string]string{"schedule.yaml": "handler: {exec: ['true']}\ntiers: [{max_age: 1d, every: 5m}]\n"})
	s.mustRun("init", "--create-table")
	for _, name := range []string{"closed", "open"} {
		if err := os.Mkdir(s.path(name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	s.chmod(0o555, "closed")
	s.chmod(0o777, "open")
	for _, tt := range []struct {
		state, want string
	}{
		{"closed/state.json", "warn  state       closed/state.json cannot be written, and a restart will not know what was missed: folder closed: permission denied\n"},
		{"closed/new/state.json", "warn  state       closed/new/state.json cannot be written, and a restart will not know what was missed: folder closed: permission denied\n"},
		{"open/new/state.json", "ok    state       open/new/state.json\n"},
	} {
		s.write("schedule.yaml", "handler: {exec: ['true']}\nstate: "+tt.state+"\ntiers: [{max_age: 1d, every: 5m}]\n")
		if _, out, _ := s.run("check"); !strings.Contains(out, tt.want) {
			t.Errorf("%s: want %q in\n%s", tt.state, tt.want, out)
		}
	}
	if list, err := os.ReadDir(s.path("open")); err != nil || len(list) > 0 {
		t.Errorf("left behind: %v %v", list, err)
	}
}
