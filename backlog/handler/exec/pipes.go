package exec

import (
	"os"
	"sync"
	"time"

	"backlog/backlog/handler/proc"
)

// pipeHolds is what an empty pipe takes without a reader, on any system.
const pipeHolds = 4 << 10

// feed returns the standard input of a program, and a function that ends the
// feeding when the program has ended: a child may hold the other end for ever. A
// pipe that holds all of the input costs no goroutine.
func feed(input []byte) (stdin *os.File, end func(), err error) {
	small := len(input) <= pipeHolds
	open := os.Pipe
	if small {
		open = proc.Pipe
	}
	r, w, err := open()
	write := func() {
		w.Write(input)
		w.Close()
	}
	if small {
		write()
	} else {
		go write()
	}
	return r, func() { w.Close() }, err
}

// moment is how long nobody reads a program's standard error. One that is done by
// then costs no goroutine and wakes nobody but the one who waits for its end; one
// that fills the pipe meanwhile has to wait.
const moment = 10 * time.Millisecond

// An output keeps the end of what a program writes to w.
type output struct {
	tail   proc.Tail
	r, w   *os.File
	polled func() *os.File // takes the place of r
	timer  *time.Timer     // starts to read
	read   chan struct{}   // closed when all is read
}

func newOutput() (*output, error) {
	r, w, err := proc.Pipe()
	polled := sync.OnceValue(func() *os.File { return proc.Polled(r) })
	return &output{r: r, w: w, polled: polled, read: make(chan struct{})}, err
}

// begin is called when the program has been started.
func (o *output) begin() {
	o.w.Close()
	o.timer = time.AfterFunc(moment, o.copy)
}

func (o *output) copy() {
	defer close(o.read)
	for buf := make([]byte, proc.TailSize); ; {
		n, err := o.polled().Read(buf)
		o.tail.Write(buf[:n])
		if err != nil {
			return
		}
	}
}

// end is called when the program has ended. It waits for a second at most for
// children that hold the pipe.
func (o *output) end() {
	unread := o.timer.Stop()
	if unread && proc.Drain(o.r, &o.tail) {
		o.r.Close()
		return
	}
	o.polled().SetReadDeadline(time.Now().Add(time.Second))
	if unread {
		o.copy()
	}
	<-o.read
	o.polled().Close()
}
