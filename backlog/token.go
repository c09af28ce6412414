package backlog

import "context"

// A token is a channel of capacity one that passes between goroutines. As a mutex it is held
// by the goroutine that took it, and a context can end the wait for it. As a signal it is given
// by one side and taken by the other; several gives before a take count as one.
type token chan struct{}

// newSignal returns a token that has not been given yet.
func newSignal() token { return make(token, 1) }

// newMutex returns a token that has been given: the first take gets it.
func newMutex() token {
	t := make(token, 1)
	t.give()
	return t
}

// give makes the token available. It does nothing where that is so already.
func (t token) give() {
	select {
	case t <- struct{}{}:
	default:
	}
}

// take waits for the token, and returns false if ctx is done before.
func (t token) take(ctx context.Context) bool {
	select {
	case <-t:
		return true
	case <-ctx.Done():
		return false
	}
}

// tryTake takes the token if it is available.
func (t token) tryTake() {
	select {
	case <-t:
	default:
	}
}
