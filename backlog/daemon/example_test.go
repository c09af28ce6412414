package daemon_test

import (
	"context"
	"fmt"
	"log"
	"sync"
	"time"

	"backlog/backlog"
	"backlog/backlog/daemon"
	"backlog/backlog/memory"
	"backlog/tiers"
)

// Of two daemons with the same table one leads, and the other stands by.
func ExampleDaemon() {
	orders := memory.New(memory.Options{})
	schedule, err := tiers.New(tiers.Tier{MaxAge: 24 * time.Hour, Every: 5 * time.Minute})
	if err != nil {
		log.Fatal(err)
	}
	ship := backlog.HandlerFunc(func(context.Context, *backlog.Record) error { return nil })
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	var begin func()
	show := func(c daemon.Change) {
		fmt.Println(c.Role)
		switch c.Role {
		case daemon.Leader:
			running.Go(begin) // the other one
		case daemon.Standby:
			stop()
		}
	}
	begin = func() {
		loop := &backlog.Loop{Schedule: schedule, Locker: orders, Engine: &backlog.Engine{Store: orders, Handler: ship}}
		d := &daemon.Daemon{
			Loop:    loop,
			Leaders: orders, // one of all programs with this table leads
			Changed: show,   // leader, standby, taking over, …
		}
		if err := d.Run(ctx); err != nil { // until it is stopped, and all passes have ended
			log.Fatal(err)
		}
	}
	running.Go(begin)
	running.Wait()
	// Output:
	// leader
	// standby
	// waiting
	// waiting
}
