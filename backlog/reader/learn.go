package reader

import (
	"context"
	"errors"
	"io/fs"
	"time"

	"backlog/backlog/advise"
	"backlog/backlog/advise/propose"
	"backlog/backlog/simulate"
	"backlog/backlog/web"
)

// learnEvery is how often it is learned from the passes again.
const learnEvery = time.Hour

// Learn learns from the passes in the state folder how long records stay broken, again and again until ctx is done.
// Pages show the last result and never wait for it.
func (r *Reader) Learn(ctx context.Context) {
	for ctx.Err() == nil {
		ended := make(chan error, 1)
		go func() { ended <- r.learn() }() // a stop does not wait for it
		select {
		case <-ctx.Done():
			return
		case err := <-ended:
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
	m := advise.Fit(h)
	if missing, _ := m.Missing(); len(missing) > 0 || len(m.StillBroken) == 0 {
		r.learned.Store(nil)
		return nil
	}
	l := &learned{model: m}
	if s := r.currentState().Simulation; s.Policy == nil { // the settings of a policy are searched by the command alone
		a, err := propose.Advise(m, propose.Question{Schedule: s.Schedule, Wishes: propose.Wishes{Lost: -1}})
		if err != nil {
			return err
		}
		l.sentence = a.Sentence()
	}
	r.learned.Store(l)
	return nil
}

// learned is what passes have taught, and what follows from it for the schedule.
type learned struct {
	model    *advise.Model
	sentence string // "": nothing
}

// model returns what was learned; nil: not enough was.
func (r *Reader) model() *advise.Model {
	l := r.learned.Load()
	if l == nil {
		return nil
	}
	return l.model
}

// learnedPage returns what the front page shows of the model; nil: not enough was learned.
func (r *Reader) learnedPage() *web.Learned {
	learned := r.learned.Load()
	if learned == nil {
		return nil
	}
	m := learned.model
	l := &web.Learned{
		Sentence:      learned.sentence,
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
