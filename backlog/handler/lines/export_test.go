package lines

// InFlight returns how many records the workers have.
func (h *Handler) InFlight() (n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, w := range h.workers {
		n += len(w.inFlight)
	}
	return n
}

// Waiting returns how many records wait for a worker.
func (h *Handler) Waiting() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.waiting)
}
