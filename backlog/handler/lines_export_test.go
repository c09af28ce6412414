package handler

// InFlight returns how many records the workers have.
func (l *Lines) InFlight() (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.slots {
		if s.c != nil {
			n += len(s.c.inFlight)
		}
	}
	return n
}

// Waiting returns how many records wait for a worker.
func (l *Lines) Waiting() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.waiting.Len()
}
