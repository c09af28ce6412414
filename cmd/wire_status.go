package cmd

import (
	"context"
	"sync"
	"time"

	"backlog/backlog/checkpoint"
	"backlog/backlog/watch"
	"backlog/backlog/web"
)

// leaderTimeout is how long a visitor waits for who leads.
const leaderTimeout = 5 * time.Second

// leading is where the daemon is that leads, as a viewer has asked last.
type leading struct {
	asking sync.Mutex
	where  string
	asked  time.Time
}

// LookBack implements web.Backlog: it reads the state folder, as status does, and takes from the
// process what that may lack.
func (d *desk) LookBack(ctx context.Context) watch.LookBack {
	leader := func(kept checkpoint.State) (string, error) { return d.leader(ctx, kept) }
	back := d.state.LookBack(time.Now(), d.picture.Passes(), d.log, leader)
	cfg, _, _ := d.present()
	back.Name = cfg.Name
	return back
}

// leader says where the daemon is that leads, "" where that is not known. A viewer asks the
// database now and then: to ask for the lock is to take it for a moment, and a daemon that
// starts could find it taken.
func (d *desk) leader(ctx context.Context, kept checkpoint.State) (string, error) {
	_, daemon, role := d.present()
	switch {
	case role == web.Leader || d.state.Leads(kept, time.Now()):
		return watch.Here, nil
	case role == web.Standby && (daemon == nil || d.Now().Trouble != nil):
		return "", nil
	case role == web.Standby:
		return watch.Elsewhere, nil
	}
	d.lead.asking.Lock()
	defer d.lead.asking.Unlock()
	if time.Since(d.lead.asked) < answersEvery {
		return d.lead.where, nil
	}
	ctx, cancel := context.WithTimeout(ctx, leaderTimeout)
	defer cancel()
	var err error
	d.lead.where, err = read(ctx, d, func(a *app, _ time.Time) (string, error) { return a.leader(ctx, d.state, kept) })
	d.lead.asked = time.Now()
	return d.lead.where, err
}
