package handler

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"backlog/backlog"
)

// Sample is [Exec.Handle], and writes to w what the program is given, the ends
// of what it writes to standard output and to standard error, and how it ended.
// The arguments are not shown: a secret can be among them. An error of w counts
// only if the program succeeded.
func (e *Exec) Sample(ctx context.Context, r *backlog.Record, w io.Writer) error {
	p, env, input, err := e.prepare(ctx, r)
	if err != nil {
		return err
	}
	s := &transcript{w: w}
	s.printf("program: %s\n", e.Command[0])
	for _, variable := range env[len(p.env):] {
		s.printf("  %s\n", variable)
	}
	s.part("standard input", strings.TrimSuffix(string(input), "\n"))

	out, stdout, err := pipe(reading)
	if err != nil {
		return err
	}
	defer out.Close()
	heard := &program{path: p.path, env: p.env, null: stdout}
	c, err := heard.start(ctx, e.Command, env, input)
	stdout.Close()
	if err != nil {
		return e.cannotStart(ctx, p, err)
	}
	said := listen(out)
	state, cut, err := c.wait(ctx, e.grace())
	s.part("standard output", said())
	s.part("standard error", c.tail.String())
	if err != nil {
		return fmt.Errorf("%s: %w", e.Command[0], err)
	}
	s.printf("%s\n", inWords(state))
	if err := e.outcome(ctx, state, cut, c.tail.String()); err != nil {
		return err
	}
	return s.err
}

// listen reads r from now on. Said, called once when the writer has ended,
// returns the end of what it wrote. Others may hold the writing end for ever.
func listen(r *os.File) (said func() string) {
	var t tail
	var reader sync.WaitGroup
	reader.Go(func() { t.readFrom(r) })
	return func() string {
		if r.SetReadDeadline(time.Unix(1, 0)) != nil {
			r.Close()
		}
		reader.Wait()
		drain(&t, r)
		return t.String()
	}
}

// A transcript shows people an attempt. It keeps the first error of its
// writer.
type transcript struct {
	w   io.Writer
	err error
}

func (t *transcript) printf(format string, args ...any) {
	if _, err := fmt.Fprintf(t.w, format, args...); t.err == nil {
		t.err = err
	}
}

// part shows a text of any number of lines under a heading; nothing where there
// is no text.
func (t *transcript) part(heading, text string) {
	if text == "" {
		return
	}
	t.printf("%s:\n    %s\n", heading, strings.ReplaceAll(text, "\n", "\n    "))
}
