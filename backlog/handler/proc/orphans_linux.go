package proc

import (
	"os"
	"strconv"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ReapOrphans reaps what programs leave behind, as long as this process runs. It is for the
// first process of a container: the kernel makes that one the parent of all orphans, which
// stay zombies until their parent reaps them. childEnded gets SIGCHLD.
//
// It is called before the first program starts, and only in a process whose programs are all
// started by [Program.Start]: the exit status of another one would be lost.
func ReapOrphans(childEnded <-chan os.Signal) {
	for {
		if running.reapOthers() {
			time.Sleep(programDelay)
			continue
		}
		<-childEnded
	}
}

// programDelay is how long an ended program is left to the goroutine that waits for it.
const programDelay = time.Millisecond

// reapOthers reaps the children of this process that have ended, except programs.
// It stops at an ended program, which hides what has ended later until [Wait] has reaped it,
// and returns true.
func (p *programs) reapOthers() (stopped bool) {
	for {
		pid := endedChild()
		if pid == 0 {
			return false
		}
		if p.has(pid) {
			return true
		}
		p.reapOther(pid)
	}
}

// reapOther reaps the child unless it is a program that was just being started.
func (p *programs) reapOther(pid int) {
	p.starting.Lock()
	defer p.starting.Unlock()
	if !p.has(pid) {
		unix.Wait4(pid, nil, unix.WNOHANG, nil)
	}
}

// pidInSiginfo is where a siginfo_t of 32-bit words has the child's process id: behind signo,
// errno, code and the padding of 64-bit systems. [unix.Siginfo] does not export it.
const pidInSiginfo = 2 + strconv.IntSize/32

// endedChild returns a child of this process that has ended and is not reaped, 0 without one. It
// reaps nothing.
func endedChild() int {
	var info [unsafe.Sizeof(unix.Siginfo{}) / 4]int32
	err := unix.Waitid(unix.P_ALL, 0, (*unix.Siginfo)(unsafe.Pointer(&info)), unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil)
	if err != nil {
		return 0 // ECHILD: there is no child at all
	}
	return int(info[pidInSiginfo])
}
