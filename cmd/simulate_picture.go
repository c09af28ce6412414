package cmd

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"backlog/backlog/simulate"
)

// A picture is the file that is drawn into. It is opened first, so that one that
// cannot be written is known before a long simulation, not after it. Nil is
// none, in which nothing is drawn.
type picture struct {
	*os.File
	format string
	made   bool // by us
	drawn  bool
}

// openPicture opens a file of that name; "" names none. What is in it stays
// until something is drawn.
func openPicture(name string) (*picture, error) {
	if name == "" {
		return nil, nil
	}
	format, err := plotFormat(name)
	if err != nil {
		return nil, err
	}
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	made := err == nil
	if errors.Is(err, fs.ErrExist) {
		f, err = os.OpenFile(name, os.O_WRONLY, 0)
	}
	if err != nil {
		return nil, err
	}
	return &picture{File: f, format: format, made: made}, nil
}

// plotFormat returns the format of a picture of that name.
func plotFormat(name string) (string, error) {
	format := strings.ToLower(strings.TrimPrefix(filepath.Ext(name), "."))
	if format != "svg" && format != "png" {
		return "", usagef("--plot: %q does not end in .svg or .png", name)
	}
	return format, nil
}

// draw draws the candidates in place of what was in the file.
func (p *picture) draw(w *simulate.Workload, all []simulated) error {
	if p == nil {
		return nil
	}
	p.drawn = true
	if err := p.Truncate(0); err != nil {
		return err
	}
	curves := each(all, func(s simulated) simulate.Curve { return simulate.Curve{Name: s.name, Report: s.Report} })
	return errors.Join(simulate.Plot(p, p.format, w, curves), p.Close())
}

// close closes the file, and takes it away again if we have made it for nothing.
func (p *picture) close() {
	if p == nil {
		return
	}
	p.Close() // unless it is closed
	if p.made && !p.drawn {
		os.Remove(p.Name())
	}
}
