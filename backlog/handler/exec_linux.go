package handler

import (
	"os"

	"golang.org/x/sys/unix"
)

// reap waits for p to exit, calls exited, and reaps p. While exited runs, p is
// a zombie: its number is not yet free for another process or group, so that
// signals that are meant for p can hit nobody else.
func reap(p *os.Process, exited func()) (*os.ProcessState, error) {
	for unix.Waitid(unix.P_PID, p.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil) == unix.EINTR {
	}
	exited()
	return p.Wait()
}
