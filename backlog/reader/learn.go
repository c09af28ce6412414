package reader

import (
	"context"
	"errors"
	"io/fs"
	"time"

	"backlog/backlog/advise"
	"backlog/backlog/simulate"
	"backlog/backlog/web"
)

// learnEvery is how often it is learned from the passes again.
const learnEvery = time.Hour

// Learn learns from the passes in the state folder how long records stay broken, again and again until ctx is done.
// Pages show the last result and never wait for it.
func (r *Reader) Learn(ctx context.Context) {
	for ctx.Err() == nil {
		learned := make(chan error, 1)
		go func() { learned <- r.learn() }() // a stop does not wait for it
		select {
		case <-ctx.Done():
			return
		case err := <-learned:
			if err != nil {
				r.Log.Warn("nothing can be learned from the passes", "error", err)
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(learnEvery):
		}
	}
}

// learn learns once.
func (r *Reader) learn() error {
	file, err := r.State.OpenPasses()
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer file.Close()
	h, err := advise.Read(file)
	if err != nil {
		return err
	}
	r.learned.Store(advise.Fit(h))
	return nil
}

// model returns what was learned; nil: not enough was.
func (r *Reader) model() *advise.Model {
	m := r.learned.Load()
	if m == nil || len(m.Lacking()) > 0 || len(m.StillBroken) == 0 {
		return nil
	}
	return m
}

// learnedPage returns what the front page shows of the model; nil: not enough was learned.
func (r *Reader) learnedPage() *web.Learned {
	m := r.model()
	if m == nil {
		return nil
	}
	l := &web.Learned{
		Days:          m.Days,
		Records:       m.Records,
		Recoveries:    m.Recoveries,
		FirstFailures: m.FirstFailures.Value,
		BrokenForGood: m.BrokenForGood.Value,
	}
	for _, p := range m.StillBroken {
		l.Points = append(l.Points, web.LearnedPoint{Age: p.Age, Share: p.Share.Value, Low: p.Share.Low, High: p.Share.High})
	}
	return l
}

// assume sets how the counted records behave, and returns the assumption for people: as was learned, or every attempt
// fails.
func (r *Reader) assume(c *simulate.Counted) web.Assumption {
	m := r.model()
	if m == nil {
		return web.AllFail
	}
	c.Behavior = &simulate.Behavior{Broken: m.Broken, Oldest: m.Oldest}
	c.PerHour = m.PerHour
	return web.AsLearned
}
