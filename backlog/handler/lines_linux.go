package handler

import (
	"os"

	"golang.org/x/sys/unix"
)

// unread returns how many bytes in a pipe nobody has read; w is the end to
// write to.
func unread(w *os.File) (n int, known bool) {
	raw, err := w.SyscallConn()
	if err != nil {
		return 0, false
	}
	err = raw.Control(func(fd uintptr) {
		n, err = unix.IoctlGetInt(int(fd), unix.TIOCINQ)
		known = err == nil
	})
	return n, known && err == nil
}
