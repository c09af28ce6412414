package cmd

import (
	"context"
	"errors"
	"time"

	"backlog/backlog/simulate"
)

// A course is what the candidates are led over, and how that is shown.
type course struct {
	*simulate.Workload
	list    []candidate
	options simulate.Options // those of every candidate
	picture *picture
	gauge   *gauge
}

// A simulated is a candidate with what became of the workload.
type simulated struct {
	candidate
	*simulate.Report
	to time.Time // the end of it
}

// course reads the flags and files that are about more than the workload, and
// opens the picture. What it returns is to be closed.
func (o *SimulateOptions) course(g *globals, w *simulate.Workload) (c *course, err error) {
	c = &course{Workload: w, gauge: newGauge(g.err), options: simulate.Options{Bucket: bucketOf(w.To.Sub(w.From))}}
	if c.options.CallTime, err = o.parseCallTime(); err != nil {
		return nil, err
	}
	if c.options.Down, err = parsePeriods("--down", o.Down, w); err != nil {
		return nil, err
	}
	if c.list, err = o.candidates(g); err != nil {
		return nil, err
	}
	c.picture, err = openPicture(o.Plot)
	return c, err
}

func (c *course) close() {
	c.gauge.end()
	c.picture.close()
}

// workload simulates and prints.
func (o *SimulateOptions) workload(ctx context.Context, g *globals) error {
	w, err := o.parse(o.Seed)
	if err != nil {
		return err
	}
	c, err := o.course(g, w)
	if err != nil {
		return err
	}
	defer c.close()
	ctx, stop := stopOnSignal(ctx)
	defer stop.close()
	return o.simulate(ctx, g, c, func(all []simulated) error { return o.printWorkload(g, w, all) })
}

// errIncomplete says that the figures, already printed, are those of a part.
var errIncomplete = errors.New("stopped: the figures are incomplete")

// simulate lets the workload happen to each candidate, and prints and draws what
// became of it. What a stop has cut short is printed, not drawn, and only if no
// difference is asked for: a part differs from a whole in everything.
func (o *SimulateOptions) simulate(ctx context.Context, g *globals, c *course, show func([]simulated) error) error {
	all, err := c.run(ctx)
	c.gauge.end()
	switch {
	case err == nil:
		return errors.Join(c.picture.draw(c.Workload, all), show(all))
	case ctx.Err() == nil:
		return err
	case len(all) == 0:
		return errors.New("stopped: there are no figures yet")
	case o.Diff != "":
		return errors.New("stopped: there are no figures to compare yet")
	}
	if !o.JSON.on && !o.CSV {
		g.sayIncomplete()
	}
	return errors.Join(show(all), errIncomplete)
}

// run simulates the candidates one after the other. With an error it returns
// those that have figures; the last may be those of a part.
func (c *course) run(ctx context.Context) (all []simulated, err error) {
	c.Draw(ctx)
	for i := range c.list {
		if ctx.Err() != nil {
			return all, ctx.Err()
		}
		c.options.Progress = c.gauge.simulating(c.list, i)
		r, err := simulate.Run(ctx, c.Workload, c.list[i].options(c.options))
		if r.Complete || r.Attempts > 0 {
			all = append(all, simulated{c.list[i], r, c.To})
		}
		if err != nil {
			return all, err
		}
	}
	return all, nil
}

// sayIncomplete begins an answer for people that a stop has cut short.
func (g *globals) sayIncomplete() { g.printf("Stopped: the figures are incomplete.\n\n") }
