//go:build !unix

package proc

import (
	"os"
	"syscall"
)

// Without process groups only the program itself is ended, and at once.

var ownGroup *syscall.SysProcAttr

func terminateGroup(pid int) { killGroup(pid) }

func killGroup(pid int) {
	if p, err := os.FindProcess(pid); err == nil {
		p.Kill()
		p.Release()
	}
}

func groupExists(int) bool { return false }
