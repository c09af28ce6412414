// Kills is the handler of the tests that kill: it writes down what it does, as package
// internal/history reads it, and plays a service that is slow or fails now and then.
//
//	kills exec NOTES    handles one record, which the environment describes
//	kills lines NOTES   is a worker
//
// KILLS_LONG is how long the calls of some rows take, which ignore SIGTERM. KILLS_FAST makes all
// others take no time at all.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"
)

// program is read at the start: later the process may have another parent.
var program = os.Getppid()

func main() {
	notes, err := os.OpenFile(os.Args[2], os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		panic(err)
	}
	n := noter{notes}
	if os.Args[1] == "lines" {
		n.work()
		return
	}
	c := call{os.Getenv("BACKLOG_ATTEMPT_ID"), os.Getenv("BACKLOG_ID"), os.Getenv("BACKLOG_TIER")}
	if os.Getenv("BACKLOG_REASON") != "" {
		n.died(c)
		return
	}
	switch n.handle(c) {
	case "error":
		os.Exit(1)
	case "reject":
		os.Exit(65)
	}
}

type call struct{ attempt, key, tier string }

type noter struct{ file *os.File }

// note writes a line at once. The time is that of the machine.
func (n noter) note(what, attempt, rest string) {
	line := fmt.Appendf(nil, "%s %d %s%s\n", what, time.Now().UnixNano(), attempt, rest)
	if _, err := n.file.Write(line); err != nil {
		panic(err)
	}
}

func (n noter) begin(what, attempt string, c call) {
	tier := c.tier
	if tier == "" {
		tier = "-"
	}
	n.note(what, attempt, fmt.Sprintf(" %s %d %d %s", c.key, os.Getpid(), program, tier))
}

// died notes a call of on_dead. It may have the id of the attempt that rejected the record, or none.
func (n noter) died(c call) {
	attempt := fmt.Sprintf("dead-%d-%d", os.Getpid(), time.Now().UnixNano())
	n.begin("dead", attempt, c)
	n.note("ended", attempt, " success")
}

// handle handles a record: rows whose number ends in 0 fail, a multiple of 37 is rejected, and
// of the other attempts one in 32 fails. It takes some milliseconds, and for every 53rd row
// KILLS_LONG.
func (n noter) handle(c call) (outcome string) {
	n.begin("began", c.attempt, c)
	id, _ := strconv.Atoi(c.key)
	sum := fnv.New32a()
	sum.Write([]byte(c.attempt))
	luck := sum.Sum32()
	takes := time.Duration(2+luck%40) * time.Millisecond
	if os.Getenv("KILLS_FAST") != "" {
		takes = 0
	}
	if long, _ := time.ParseDuration(os.Getenv("KILLS_LONG")); long > 0 && id%53 == 0 {
		signal.Ignore(syscall.SIGTERM)
		takes = long
	}
	n.sleep(c.attempt, takes)
	switch {
	case id%37 == 0:
		outcome = "reject"
	case id%10 == 0 || (luck>>8)%32 == 0:
		outcome = "error"
	default:
		outcome = "success"
	}
	n.note("ended", c.attempt, " "+outcome)
	return outcome
}

// sleep gives signs of life while it takes its time.
func (n noter) sleep(attempt string, d time.Duration) {
	const beat = 50 * time.Millisecond
	for d > beat {
		time.Sleep(beat)
		n.note("seen", attempt, "")
		d -= beat
	}
	if d > 0 {
		time.Sleep(d)
	}
}

// work answers requests one by one. Replies are flushed when no request is left.
func (n noter) work() {
	in := bufio.NewReaderSize(os.Stdin, 1<<16)
	out := bufio.NewWriterSize(os.Stdout, 1<<16)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return
		}
		var r struct {
			Attempt string          `json:"attempt_id"`
			ID      json.RawMessage `json:"id"`
			Tier    string          `json:"tier"`
		}
		if err := json.Unmarshal(line, &r); err != nil {
			panic(err)
		}
		outcome := n.handle(call{r.Attempt, string(r.ID), r.Tier})
		fmt.Fprintf(out, "{\"attempt_id\":%q,\"outcome\":%q}\n", r.Attempt, outcome)
		if in.Buffered() == 0 {
			out.Flush()
		}
	}
}
