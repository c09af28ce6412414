//go:build !linux

package handler

import "os"

// reap waits for p to exit, reaps p, and calls exited. In between p's number
// is free for another process or group; that a signal is sent to it just then
// is possible but needs the two to coincide.
func reap(p *os.Process, exited func()) (*os.ProcessState, error) {
	state, err := p.Wait()
	exited()
	return state, err
}

func pipe(end) (r, w *os.File, err error) { return os.Pipe() }
