package proc

import (
	"os"

	"golang.org/x/sys/unix"
)

// A program does not outlive this process, however that ends: the next one would
// start the same record beside it. What the program has started itself may.
func init() { ownGroup.Pdeathsig = unix.SIGKILL }

// Pipe is [os.Pipe], but its ends are unknown to the poller, which costs a short
// program some 4 % of its run: os.Pipe makes both non-blocking, and a program's
// end blocking again, and the end of the program wakes a thread of ours.
func Pipe() (r, w *os.File, err error) {
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		return nil, nil, os.NewSyscallError("pipe2", err)
	}
	return os.NewFile(uintptr(fds[0]), "|0"), os.NewFile(uintptr(fds[1]), "|1"), nil
}

// Polled returns the end r of a pipe as a file that knows deadlines, in place of r.
func Polled(r *os.File) *os.File {
	defer r.Close()
	fd, err := unix.FcntlInt(r.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil // a nil file has nothing to read
	}
	unix.SetNonblock(fd, true)
	return os.NewFile(uintptr(fd), r.Name())
}

// Drain reads what is in the pipe, not more than a pipe holds, and reports whether
// that was all: false where others may still write to it.
func Drain(r *os.File, t *Tail) bool {
	fd := int(r.Fd())
	unix.FcntlInt(r.Fd(), unix.F_SETFL, unix.O_NONBLOCK) // it has no other flags
	buf := make([]byte, TailSize)
	for range 1 << 20 / TailSize {
		n, err := unix.Read(fd, buf)
		if n <= 0 && err != unix.EINTR {
			return n == 0
		}
		t.Write(buf[:max(n, 0)])
	}
	return false
}

// Unread returns how many bytes in a pipe nobody has read; w is its writing end.
func Unread(w *os.File) (n int, known bool) {
	raw, _ := w.SyscallConn()      // an error is a nil file
	raw.Control(func(fd uintptr) { // which is not called for a closed one
		var err error
		n, err = unix.IoctlGetInt(int(fd), unix.TIOCINQ)
		known = err == nil
	})
	return n, known
}
