package cmd

import (
	"io"
	"sync"

	"github.com/schollz/progressbar/v3"
)

// A screen is a terminal on whose last line there may be a bar. The bar makes
// way for whatever else is written, of whomever it comes.
type screen struct {
	w io.Writer

	mu  sync.Mutex
	bar *progressbar.ProgressBar // nil: none
}

// onScreen returns w as a screen if it is a terminal, else w.
func onScreen(w io.Writer) io.Writer {
	if !isTerminal(w) {
		return w
	}
	return &screen{w: w}
}

func (s *screen) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.bar != nil {
		s.bar.Clear()
	}
	return s.w.Write(b)
}
