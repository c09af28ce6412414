package proc

import (
	"os"

	"golang.org/x/sys/unix"
)

// The kernel kills a program when this process ends, however it ends: otherwise the next
// process would handle the same record at the same time. Children of the program survive.
func init() { ownGroup.Pdeathsig = unix.SIGKILL }

// Pipe is [os.Pipe] with blocking ends, which Go's poller does not know. That makes a short
// program about 4 % faster: os.Pipe makes both ends non-blocking and then the program's end
// blocking again, and the program's exit wakes a thread of this process.
func Pipe() (r, w *os.File, err error) {
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		return nil, nil, os.NewSyscallError("pipe2", err)
	}
	return os.NewFile(uintptr(fds[0]), "|0"), os.NewFile(uintptr(fds[1]), "|1"), nil
}

// Pollable closes the reading end r of a pipe and returns a file for the same end that
// supports deadlines.
func Pollable(r *os.File) *os.File {
	defer r.Close()
	fd, err := unix.FcntlInt(r.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil // a nil file has nothing to read
	}
	unix.SetNonblock(fd, true)
	return os.NewFile(uintptr(fd), r.Name())
}

// Drain reads what is in the pipe, at most 1 MiB, without waiting for more. It reports whether
// the pipe has ended: false if another process holds the writing end, or there may be more.
func Drain(r *os.File, t *Tail) bool {
	fd := int(r.Fd())
	unix.FcntlInt(r.Fd(), unix.F_SETFL, unix.O_NONBLOCK) // no other flag is set
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

// Unread returns how many bytes in the pipe with the writing end w have not been read. known is
// false if the system cannot say.
func Unread(w *os.File) (n int, known bool) {
	raw, _ := w.SyscallConn()      // fails only for a nil file
	raw.Control(func(fd uintptr) { // does not call the function for a closed file
		var err error
		n, err = unix.IoctlGetInt(int(fd), unix.TIOCINQ)
		known = err == nil
	})
	return n, known
}
