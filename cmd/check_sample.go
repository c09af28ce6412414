package cmd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"time"

	"backlog/backlog"
)

// A sample is one record that was handed to the handler for people to look at.
type sample struct {
	row     backlog.Row
	tier    string // whose pass would take it next; "": none
	took    time.Duration
	outcome backlog.Outcome
	err     error     // the handler's
	pause   time.Time // until when it asks for one; zero: it does not
}

type sampleJSON struct {
	ID         backlog.Key `json:"id"`
	Status     string      `json:"status"`
	State      string      `json:"state"` // as explain has it
	Tier       string      `json:"tier"`
	Outcome    string      `json:"outcome"`
	Error      string      `json:"error"`
	Duration   float64     `json:"duration_seconds"`
	PauseUntil stamp       `json:"pause_until"`
	Transcript string      `json:"transcript"`
}

// runSample hands one record to the handler and shows what it is given and what
// comes back. Nothing is settled. It holds the run lock, so that nobody else
// handles the record meanwhile.
func runSample(ctx context.Context, o CheckOptions, g *globals) error {
	_, now, err := o.Now.clock()
	if err != nil {
		return err
	}
	cfg, err := g.load()
	if err != nil {
		return err
	}
	log := newLog(cfg.Log, g.err)
	ctx, stop := stopOnSignal(ctx)
	defer stop.close()
	a, err := g.wireApp(ctx, cfg, log, now)
	if err != nil {
		return err
	}
	defer a.close()
	if err := a.handler.Check(ctx); err != nil {
		return fmt.Errorf("handler: %w", err)
	}
	lock, err := lockWithin(ctx, a.table, 0)
	if err != nil {
		return err
	}
	defer lock.Unlock()
	row, err := a.find(ctx, o.Sample, now)
	if err != nil {
		return err
	}
	s := &sample{row: row, tier: backlog.Explain(row, cfg.Tiers, policyOf(cfg), now).Tier}
	defer context.AfterFunc(ctx, func() {
		fmt.Fprintln(g.err, "backlog: waiting for the handler; a second signal ends it")
	})()
	attempt := func(w io.Writer) error { return s.take(ctx, a, stop.hard, now, w) }
	if !o.JSON.on {
		return g.printSample(s, attempt)
	}
	var transcript bytes.Buffer
	if err := attempt(&transcript); err != nil {
		return err
	}
	return printJSON(g.out, s.json(transcript.String()))
}

// printSample prints the attempt while it is made.
func (g *globals) printSample(s *sample, attempt func(io.Writer) error) error {
	g.printf("record   %s\n", shown(s.row.Key.String()))
	g.printf("status   %s\n\n", s.status())
	show := &lineWriter{w: g.out}
	err := attempt(show)
	show.end()
	if err != nil {
		return err
	}
	g.printf("\noutcome  %s\n", s.result())
	if !s.pause.IsZero() {
		g.printf("         asks for a pause until %s\n", when(s.pause))
	}
	g.printf("         nothing is settled: the row stays as it was\n")
	return show.err
}

// take makes the attempt: a pass of an engine over that one record. The error
// says that the handler could not be called.
func (s *sample) take(ctx context.Context, a *app, hard <-chan struct{}, now time.Time, w io.Writer) error {
	ended := false
	wired := a.engine(nil, hard, nil)
	e := &backlog.Engine{
		Store: &sampleStore{record: s.row.Record},
		Handler: backlog.HandlerFunc(func(ctx context.Context, r *backlog.Record) error {
			began := time.Now()
			defer func() { s.took = time.Since(began) }()
			return a.handler.Sample(ctx, r, w)
		}),
		Timeout: wired.Timeout, MaxPause: wired.MaxPause, ShutdownTimeout: wired.ShutdownTimeout, Hard: hard,
		Observe: func(ev backlog.Event) {
			switch ev.Kind {
			case backlog.AttemptEnded:
				ended, s.outcome, s.err = true, ev.Outcome, ev.Err
			case backlog.Paused:
				s.pause = ev.At
			}
		},
	}
	report, err := e.Pass(ctx, backlog.Pass{Tier: s.tier, Now: now})
	if err == nil && (!ended || report.Interrupted > 0) {
		err = errors.New("stopped before the handler answered")
	}
	return err
}

// status says what the row is, whatever the handler then does with it.
func (s *sample) status() string {
	text, state := shown(s.row.Status), s.row.Standing.String()
	if text != state {
		text += " (" + state + ")"
	}
	if s.row.Filtered {
		text += ", left out by table.where"
	}
	return text
}

func (s *sample) result() string {
	text := fmt.Sprintf("%s, after %v", s.outcome, s.took.Round(100*time.Microsecond))
	if s.err != nil {
		text += ": " + escaped(s.err.Error())
	}
	return text
}

func (s *sample) json(transcript string) sampleJSON {
	j := sampleJSON{
		ID: s.row.Key, Status: s.row.Status, State: s.row.Standing.String(), Tier: s.tier,
		Outcome: s.outcome.String(), Duration: s.took.Seconds(), PauseUntil: stamp(s.pause), Transcript: transcript,
	}
	if s.err != nil {
		j.Error = s.err.Error()
	}
	return j
}

// A sampleStore has one pending record, once, and forgets what becomes of it.
type sampleStore struct {
	record backlog.Record
	given  atomic.Bool
}

// Pending implements backlog.Store.
func (s *sampleStore) Pending(_ context.Context, q backlog.Query) (p backlog.Page, err error) {
	if q.Lane == backlog.Fresh && s.given.CompareAndSwap(false, true) {
		p.Records = []backlog.Record{s.record}
	}
	return p, nil
}

// Settle implements backlog.Store.
func (s *sampleStore) Settle(context.Context, []backlog.Settlement) ([]backlog.Unsettled, error) {
	return nil, nil
}

// A lineWriter writes whole lines to w, with nothing in them that a terminal
// takes for more than text. It keeps the first error.
type lineWriter struct {
	w    io.Writer
	rest []byte // of a line that has not ended
	err  error
}

func (l *lineWriter) Write(b []byte) (int, error) {
	l.rest = append(l.rest, b...)
	for {
		line, rest, ok := bytes.Cut(l.rest, []byte{'\n'})
		if !ok {
			return len(b), l.err
		}
		l.rest = rest
		l.line(string(line))
	}
}

func (l *lineWriter) line(text string) {
	cells := each(strings.Split(text, "\t"), escaped)
	if _, err := io.WriteString(l.w, strings.Join(cells, "\t")+"\n"); l.err == nil {
		l.err = err
	}
}

// end writes what is left of a line.
func (l *lineWriter) end() {
	if len(l.rest) > 0 {
		l.line(string(l.rest))
		l.rest = nil
	}
}
