package redis

import (
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"
)

// An answer may take long as long as it goes on; silence ends it, and so does a Redis that
// does not read.
func TestConn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		defer near.Close()
		defer far.Close()
		c := timeoutConn{near}
		go func() {
			for range 5 {
				time.Sleep(ioTimeout - time.Second)
				_, _ = far.Write([]byte("x"))
			}
		}()
		if _, err := io.ReadFull(c, make([]byte, 5)); err != nil {
			t.Error(err)
		}
		began := time.Now()
		if _, err := c.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(began) != ioTimeout {
			t.Errorf("silence: %v after %v", err, time.Since(began))
		}
		if _, err := c.Write([]byte("x")); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("nobody reads: %v", err)
		}
	})
}
