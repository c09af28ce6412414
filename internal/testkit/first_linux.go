package testkit

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// FirstProcess returns how a program is started as the first process of a PID namespace, as in
// a container. It skips the test if this machine does not allow that.
func FirstProcess(t testing.TB) *syscall.SysProcAttr {
	t.Helper()
	attr := &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID, Pdeathsig: syscall.SIGKILL}
	if os.Getuid() != 0 {
		attr.Cloneflags |= syscall.CLONE_NEWUSER
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
	}
	probe := exec.Command("true")
	probe.SysProcAttr = attr
	if err := probe.Run(); err != nil {
		t.Skipf("this machine gives this user no PID namespace (%v): run the test as root, and not in a container", err)
	}
	return attr
}

// Zombies returns how many children of the process have ended without being reaped.
func Zombies(t TB, parent int) (n int) {
	t.Helper()
	found, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatalf("%v", err)
	}
	for _, entry := range found {
		stat, err := os.ReadFile("/proc/" + entry.Name() + "/stat")
		if err != nil {
			continue // no process, or one that has gone
		}
		_, state, _ := strings.Cut(string(stat), ") ")
		if strings.HasPrefix(state, fmt.Sprintf("Z %d ", parent)) {
			n++
		}
	}
	return n
}

// NoZombies waits until no child of the process is a zombie.
func NoZombies(t TB, parent int) {
	t.Helper()
	Eventually(t, "no child of the process is a zombie", func() bool { return Zombies(t, parent) == 0 })
}
