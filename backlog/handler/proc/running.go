package proc

import (
	"os/exec"
	"sync"
)

// running are the programs that [Program.Start] has started and [Wait] has not reaped.
// [ReapOrphans] leaves them alone, since a program that it reaped would have no exit status.
var running = programs{byPID: make(map[int]*exec.Cmd)}

// programs are programs by their process id.
type programs struct {
	// starting is locked for reading while a program starts: from before there is a process
	// until it is in byPID. While it is locked for writing, byPID has every program.
	starting sync.RWMutex

	mu    sync.Mutex // guards byPID
	byPID map[int]*exec.Cmd
}

// start starts the command and adds it.
func (p *programs) start(cmd *exec.Cmd) error {
	p.starting.RLock()
	defer p.starting.RUnlock()
	err := cmd.Start()
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.byPID[cmd.Process.Pid] = cmd
	return nil
}

// wait waits for the command and removes it. A command that got the same process id since
// the end of this one stays.
func (p *programs) wait(cmd *exec.Cmd) error {
	err := cmd.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.byPID[cmd.Process.Pid] == cmd {
		delete(p.byPID, cmd.Process.Pid)
	}
	return err
}

// has reports whether the process is one of the programs.
func (p *programs) has(pid int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.byPID[pid] != nil
}
