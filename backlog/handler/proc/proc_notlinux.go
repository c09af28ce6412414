//go:build !linux

package proc

import "os"

// Pipe is [os.Pipe].
func Pipe() (r, w *os.File, err error) { return os.Pipe() }

// Polled returns r, which knows deadlines.
func Polled(r *os.File) *os.File { return r }

// Drain would read what is in the pipe at once. Elsewhere than on Linux it is read
// with a deadline.
func Drain(*os.File, *Tail) bool { return false }

// Unread would return how many bytes in a pipe nobody has read, but only Linux
// says that to the one who writes.
func Unread(*os.File) (n int, known bool) { return 0, false }
