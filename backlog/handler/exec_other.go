//go:build !unix

package handler

import (
	"errors"
	"os"
	"syscall"
)

// Without process groups only the program itself is ended, and at once.

var (
	ownGroup *syscall.SysProcAttr

	errFileBusy = errors.ErrUnsupported
)

func isNoProgram(error) bool { return false }
func isTooLong(error) bool   { return false }

func terminateGroup(pid int) { killGroup(pid) }

func killGroup(pid int) {
	if p, err := os.FindProcess(pid); err == nil {
		p.Kill()
		p.Release()
	}
}

func groupExists(int) bool { return false }

// drain reads r to its end, which is that of all who hold it.
func drain(s sink, r *os.File) { pump(s, r) }
