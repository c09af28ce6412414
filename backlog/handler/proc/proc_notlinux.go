//go:build !linux

package proc

import "os"

// Pipe is [os.Pipe].
func Pipe() (r, w *os.File, err error) { return os.Pipe() }

// Pollable returns r, which supports deadlines already.
func Pollable(r *os.File) *os.File { return r }

// Drain does nothing and returns false: on this system the caller reads the pipe with a
// deadline.
func Drain(*os.File, *Tail) bool { return false }

// Unread returns false: only Linux tells a writer how much of a pipe is unread.
func Unread(*os.File) (n int, known bool) { return 0, false }

// ReapOrphans does nothing: only on Linux can a program be the first process of a container.
func ReapOrphans(<-chan os.Signal) {}
