//go:build unix

package handler

import (
	"errors"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

var (
	ownGroup = &syscall.SysProcAttr{Setpgid: true}

	errFileBusy error = unix.ETXTBSY
)

// isNoProgram reports whether the system does not know how to execute the
// file that was started with err.
func isNoProgram(err error) bool { return errors.Is(err, unix.ENOEXEC) }

// isTooLong reports whether the start failed with err for the length of what
// the program was to be given.
func isTooLong(err error) bool { return errors.Is(err, unix.E2BIG) }

// The group of a process that was started with ownGroup has its number. Errors
// are of no use to anybody: the group is gone or belongs to another user.

func terminateGroup(pid int) { unix.Kill(-pid, unix.SIGTERM) }

func killGroup(pid int) { unix.Kill(-pid, unix.SIGKILL) }

// groupExists reports whether the group of the reaped process pid has members.
func groupExists(pid int) bool {
	if unix.Kill(-pid, 0) == unix.ESRCH {
		return false
	}
	// The dead count as members until their parent reaps them. That is this
	// process if it is the first one of a container.
	unix.Wait4(-pid, nil, unix.WNOHANG, nil)
	return true
}

// drain reads into s what is in the pipe r, without waiting for more and not
// more than a pipe holds: somebody may write for ever.
func drain(s sink, r *os.File) {
	r.SetReadDeadline(time.Time{})
	c, err := r.SyscallConn()
	if err != nil {
		return
	}
	c.Read(func(fd uintptr) bool {
		for left := 1 << 20; left > 0; {
			n, err := unix.Read(int(fd), s.space())
			if err == unix.EINTR {
				continue
			}
			if n <= 0 {
				break
			}
			s.wrote(n)
			left -= n
		}
		return true
	})
}
