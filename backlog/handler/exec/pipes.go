package exec

import (
	"io"
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

// moment is how long nobody reads a program's output. One that is done by
// then costs no goroutine and wakes nobody but the one who waits for its end; one
// that fills the pipe meanwhile has to wait.
const moment = 10 * time.Millisecond

// An output keeps the end of what a program writes to w.
type output struct {
	tail   proc.Tail
	r, w   *os.File
	polled func() *os.File // takes the place of r
	read   chan struct{}   // closed when all is read

	patience time.Duration // with children that hold the pipe
}

func newOutput(patience time.Duration) (*output, error) {
	r, w, err := proc.Pipe()
	polled := sync.OnceValue(func() *os.File { return proc.Polled(r) })
	return &output{r: r, w: w, polled: polled, read: make(chan struct{}), patience: patience}, err
}

// begin is called when the program has been started. The timer starts to read.
func begin(stdout, stderr *output) *time.Timer {
	stdout.w.Close()
	stderr.w.Close()
	return time.AfterFunc(moment, func() {
		go stdout.copy()
		stderr.copy()
	})
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

// end is called when the program has ended. For children that hold the pipe it waits no
// longer than it takes to read what is there if they go on, which they may, lest they die
// of it.
func (o *output) end(unread bool) {
	if unread && proc.Drain(o.r, &o.tail) {
		o.r.Close()
		return
	}
	o.polled().SetReadDeadline(time.Now().Add(o.patience))
	if unread {
		o.copy()
	}
	<-o.read
	go func() {
		o.polled().SetReadDeadline(time.Time{})
		io.Copy(io.Discard, o.polled())
		o.polled().Close()
	}()
}
