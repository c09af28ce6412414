package cmd_test

import (
	"encoding/binary"
	"maps"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"

	"backlog/internal/testkit"
)

// torture is how often the program is killed at each arrow: once, unless `make torture`
// says more. Then faults that take minutes are tested, too.
var torture = func() int {
	n, _ := strconv.Atoi(os.Getenv("BACKLOG_TORTURE"))
	return max(1, n)
}()

// An arrow is a message of AMQP on its way between the program and the broker.
type arrow struct {
	name    string
	answers bool // it is the broker's
	method  uint32
	passes  bool // the other side gets it, and then the program is killed; else before
}

// Methods of AMQP: class and number.
const (
	basicPublish = 60<<16 | 40
	basicDeliver = 60<<16 | 60
	basicAck     = 60<<16 | 80
)

// arrows are all between a program that consumes and publishes and the broker. A source
// publishes failures, a daemon requests and a worker outcomes.
var arrows = []arrow{
	{"delivered", true, basicDeliver, true},
	{"publish-lost", false, basicPublish, false},
	{"publish-sent", false, basicPublish, true},
	{"confirm-lost", true, basicAck, false},
	{"confirm-sent", true, basicAck, true},
	{"ack-lost", false, basicAck, false},
	{"ack-sent", false, basicAck, true},
}

// A snare kills a program at an arrow. It is in front of the broker.
type snare struct {
	*proxy

	mu     sync.Mutex
	seen   map[way]*frames
	arrow  arrow
	skip   int
	victim *daemon // nil: none
	resets int     // how often the connection is reset at the arrow
}

type way struct {
	*link
	answers bool
}

func newSnare(t *testing.T, broker string) *snare {
	s := &snare{seen: make(map[way]*frames)}
	s.proxy = newProxy(t, broker)
	s.spy = s.look
	return s
}

// kill has the program that start starts killed at the arrow when it has passed so often.
func (s *snare) kill(a arrow, skip int, start func() *daemon) *daemon {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.arrow, s.skip = a, skip
	s.victim = start()
	return s.victim
}

// reset has so many connections reset at the arrow, and reports how many are left.
func (s *snare) reset(a arrow, n int) (left func() int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.arrow, s.resets = a, n
	return func() int {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.resets
	}
}

func (s *snare) look(l *link, answers bool, text []byte) (pass bool, then func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := way{l, answers}
	if s.seen[w] == nil {
		s.seen[w] = new(frames)
		if !answers {
			s.seen[w].skip = len("AMQP\x00\x00\x09\x01")
		}
	}
	nothing := func() {}
	if !slices.Contains(s.seen[w].methods(text), s.arrow.method) || answers != s.arrow.answers || s.victim == nil && s.resets == 0 {
		return true, nothing
	}
	if s.resets > 0 {
		s.resets--
		reset(l.client)
		return false, nothing
	}
	if s.skip--; s.skip >= 0 {
		return true, nothing
	}
	v := s.victim
	kill := func() {
		v.cmd.Process.Kill()
		<-v.end
	}
	s.victim = nil
	if !s.arrow.passes {
		kill()
		return false, nothing
	}
	return true, kill
}

// frames are what passes on a connection one way.
type frames struct {
	head []byte
	skip int
}

// methods returns which methods begin in the text, which goes on where the last has ended.
func (f *frames) methods(text []byte) (list []uint32) {
	for len(text) > 0 {
		if f.skip > 0 {
			n := min(f.skip, len(text))
			f.skip, text = f.skip-n, text[n:]
			continue
		}
		f.head, text = append(f.head, text[0]), text[1:]
		const header, isMethod, method, end = 7, 1, 4, 1
		want := header
		if f.head[0] == isMethod {
			want += method
		}
		if len(f.head) < want {
			continue
		}
		if f.head[0] == isMethod {
			list = append(list, binary.BigEndian.Uint32(f.head[header:]))
		}
		f.skip, f.head = header+int(binary.BigEndian.Uint32(f.head[3:]))+end-want, nil
	}
	return list
}

// An account says what the kills at each arrow have done. It is printed when the test ends.
type account struct {
	mu    sync.Mutex
	lines map[string]*tally
}

// A tally counts what kills have done to messages or rows.
type tally struct{ kills, all, succeeded, waiting, lost, wrong, copies, most int }

func newAccount(t *testing.T) *account {
	a := &account{lines: make(map[string]*tally)}
	t.Cleanup(func() {
		for _, name := range slices.Sorted(maps.Keys(a.lines)) {
			n := a.lines[name]
			t.Logf("account: %-20s %4d kills, %5d in all: %5d succeeded, %4d wait or have failed, %d lost, %d wrong, %d copies of at most %d",
				name, n.kills, n.all, n.succeeded, n.waiting, n.lost, n.wrong, n.copies, n.most)
		}
	})
	return a
}

// add adds what a test has counted, and fails it if that is not as promised.
func (a *account) add(t *testing.T, arrow string, n tally) {
	t.Helper()
	testkit.Equal(t, arrow+": lost", n.lost, 0)
	testkit.Equal(t, arrow+": wrong", n.wrong, 0)
	if n.copies > n.most {
		t.Errorf("%s: got %d copies, want at most %d", arrow, n.copies, n.most)
	}
	testkit.Equal(t, arrow+": succeeded, waiting and lost make all", n.succeeded+n.waiting+n.lost, n.all)
	a.mu.Lock()
	defer a.mu.Unlock()
	sum := a.lines[arrow]
	if sum == nil {
		sum = new(tally)
		a.lines[arrow] = sum
	}
	*sum = tally{
		sum.kills + n.kills, sum.all + n.all, sum.succeeded + n.succeeded, sum.waiting + n.waiting,
		sum.lost + n.lost, sum.wrong + n.wrong, sum.copies + n.copies, sum.most + n.most,
	}
}
