package cmd_test

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"time"

	"pgregory.net/rapid"
)

// A receiver is the service to which records are sent. It answers as the rows' draws say,
// and remembers who was called when. Its methods may be called concurrently.
type receiver struct {
	server *httptest.Server

	mu     sync.Mutex
	draw   *hostileDraw
	fill   func(row int) error // writes what only a handler writes
	active map[int]int         // calls under way, by row
	calls  map[int]int         // since the draw began
	step   map[int][]string    // what the calls of this step were answered
	deaths map[int]int         // calls of on_dead in this step
	faults []string            // what must not happen, such as two calls at once
	count  int                 // calls in this step, those of on_dead included

	// at is the number of the call at which act is called, before it is answered. A call
	// at which act returns false gets no answer.
	at  int
	act func(row int) bool

	open map[string]bool // connections, by the caller's address
}

func newReceiver() *receiver {
	r := &receiver{open: make(map[string]bool)}
	r.server = httptest.NewUnstartedServer(http.HandlerFunc(r.serve))
	r.server.Config.ConnState = r.connState
	r.server.Start()
	return r
}

// connState notes which connections are open. The server calls it with StateNew before it accepts
// the next one, and with StateClosed when the call has ended.
func (r *receiver) connState(c net.Conn, state http.ConnState) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch state {
	case http.StateNew:
		r.open[c.RemoteAddr().String()] = true
	case http.StateClosed:
		delete(r.open, c.RemoteAddr().String())
	}
}

// awaitCalls waits until the calls of callers that are gone have ended: those that were sent and
// not yet accepted, too, since connections are accepted in their order.
func (r *receiver) awaitCalls(t rapid.TB) {
	t.Helper()
	last, err := net.Dial("tcp", r.server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer last.Close()
	own := last.LocalAddr().String()
	isAlone := func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.open[own] && len(r.open) == 1
	}
	if !eventuallyEvery(time.Millisecond, patience, isAlone) {
		t.Fatal("calls of a killed process do not end")
	}
}

// begin begins a draw.
func (r *receiver) begin(d *hostileDraw, fill func(row int) error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.draw = d
	r.fill = fill
	r.active = make(map[int]int)
	r.calls = make(map[int]int)
	r.faults = nil
}

// next begins a step, at whose n-th call act is called; n of 0: never.
func (r *receiver) next(n int, act func(row int) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.step = make(map[int][]string)
	r.deaths = make(map[int]int)
	r.count = 0
	r.at = n
	r.act = act
}

// disarm has nothing happen at a call any more.
func (r *receiver) disarm() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.at = 0
}

// taken returns what the step's calls came to.
func (r *receiver) taken() (answers map[int][]string, deaths map[int]int, faults []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.step, r.deaths, r.faults
}

func (r *receiver) serve(w http.ResponseWriter, req *http.Request) {
	var record struct {
		Row int `json:"row_no"`
	}
	if err := json.NewDecoder(req.Body).Decode(&record); err != nil {
		r.fault("a call without a record: %v", err)
		return
	}
	answer, ok := r.call(record.Row, req.URL.Path)
	switch {
	case !ok:
		panic(http.ErrAbortHandler)
	case answer == "error":
		w.WriteHeader(http.StatusInternalServerError)
		fmt.Fprintln(w, "no such item")
	case answer == "reject":
		w.WriteHeader(http.StatusGone)
	}
}

// call is a call about the row, of the handler or of on_dead, and returns its answer, if
// there is one.
func (r *receiver) call(row int, path string) (answer string, ok bool) {
	acts := r.enter(row, path)
	defer r.leave(row)
	if acts && !r.act(row) {
		return "", false
	}
	if path == "/dead" {
		r.mu.Lock()
		r.deaths[row]++
		r.mu.Unlock()
		return "success", true
	}
	return r.answer(row), true
}

// enter notes that a call begins, and reports whether it is the one to act at.
func (r *receiver) enter(row int, path string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.active[row]++
	if r.active[row] > 1 {
		r.faults = append(r.faults, fmt.Sprintf("row %d: two calls at once (%s)", row, path))
	}
	if row >= len(r.draw.Rows) {
		r.faults = append(r.faults, fmt.Sprintf("row %d of the other queue was sent to %s", row, path))
	}
	r.count++
	return r.count == r.at
}

func (r *receiver) leave(row int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.active[row]--
}

func (r *receiver) fault(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.faults = append(r.faults, fmt.Sprintf(format, args...))
}

// answer returns what the call of the row is answered, and fills what only a handler fills.
func (r *receiver) answer(row int) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if row >= len(r.draw.Rows) {
		return "success"
	}
	x := &r.draw.Rows[row]
	answer := x.Answers[min(r.calls[row], len(x.Answers)-1)]
	r.calls[row]++
	r.step[row] = append(r.step[row], answer)
	if r.draw.Obstacle == "filled" && !x.Sick {
		if err := r.fill(row); err != nil {
			r.faults = append(r.faults, fmt.Sprintf("row %d cannot be filled: %v", row, err))
		}
	}
	return answer
}

// called returns how often the row was called before this step.
func (r *receiver) called(row int) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.calls[row] - len(r.step[row])
}
