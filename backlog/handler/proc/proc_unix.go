//go:build unix

package proc

import (
	"syscall"

	"golang.org/x/sys/unix"
)

var ownGroup = &syscall.SysProcAttr{Setpgid: true}

// A process that was started with ownGroup is the leader of a group of its
// number. The errors are of no use: the group is gone or belongs to another user.

func terminateGroup(pid int) { unix.Kill(-pid, unix.SIGTERM) }

func killGroup(pid int) { unix.Kill(-pid, unix.SIGKILL) }

// groupExists reports whether the group of the reaped process pid has members.
func groupExists(pid int) bool {
	if unix.Kill(-pid, 0) == unix.ESRCH {
		return false
	}
	// The dead count as members until their parent reaps them, which is this
	// process if it is the first one of a container.
	unix.Wait4(-pid, nil, unix.WNOHANG, nil)
	return true
}
