package handler

import (
	"os"

	"golang.org/x/sys/unix"
)

// A program does not outlive this process, however that ends: the next one would
// start the same record beside it. Whatever the program has started itself may.
func init() { ownGroup.Pdeathsig = unix.SIGKILL }

// reap waits for p to exit, calls exited, and reaps p. While exited runs, p is
// a zombie: its number is not yet free for another process or group, so that
// signals that are meant for p can hit nobody else.
func reap(p *os.Process, exited func()) (*os.ProcessState, error) {
	for unix.Waitid(unix.P_PID, p.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil) == unix.EINTR {
	}
	exited()
	return p.Wait()
}

// pipe is [os.Pipe], but makes only one end non-blocking and known to the
// poller. os.Pipe does that to both, and the program's end is made blocking
// again when it is handed over: some 2 % of a short program's run.
func pipe(polled end) (r, w *os.File, err error) {
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		return nil, nil, os.NewSyscallError("pipe2", err)
	}
	if polled != neither {
		unix.SetNonblock(fds[polled], true)
	}
	return os.NewFile(uintptr(fds[reading]), "|0"), os.NewFile(uintptr(fds[writing]), "|1"), nil
}
