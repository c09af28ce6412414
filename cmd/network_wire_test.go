package cmd_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"testing"
	"time"
)

// A blow is something that happens to the network at a message of a kind.
type blow struct {
	What    string
	Kind    string  // of the message: see the speeches
	Answers bool    // the server sends it; for databases it is the answer to a message of the kind
	After   int     // so many messages of the kind pass first
	Part    float64 // of the message that passes before: 0 none, 1 all of it
	All     bool    // every connection suffers it, not only that of the message
	Lasts   time.Duration
}

func (b blow) String() string {
	who := "to"
	if b.Answers {
		who = "from"
	}
	scope := "one connection"
	if b.All {
		scope = "all connections"
	}
	return fmt.Sprintf("%s of %s for %v at %.2f of message %d %s the server of kind %s", b.What, scope, b.Lasts, b.Part, b.After+1, who, b.Kind)
}

// What a blow does.
const (
	blowReset   = "reset"   // both sides get an error
	blowHalf    = "half"    // both sides hear nothing more, and are told when it is over
	blowVanish  = "vanish"  // the server gets an error; the program hears nothing, and is told when it is over
	blowStall   = "stall"   // what is sent passes when it is over
	blowTrickle = "trickle" // what is sent passes byte by byte
	blowRefuse  = "refuse"  // a reset, and until it is over nobody can connect
	blowCopy    = "copy"    // the second server gets the table as it is now
	blowPromote = "promote" // a reset, and from now on every new connection leads to the second server
)

// A wire is a proxy that knows where messages begin and end, and strikes at one of them. What
// it knows of the program is the protocol that it speaks with its server.
type wire struct {
	*proxy
	speech speech

	mu     sync.Mutex
	talks  map[*link]*talk
	blows  []blow // that are to come: the first waits for its message
	struck []blow
	passed int // messages that the first blow has waited for

	striking int            // blows that have struck and are not over
	ended    *sync.Cond     // striking has become less
	kinds    map[string]int // how many messages of each have passed

	// The second server is another schema or database of the first one, with a name as long.
	name, second string
	copies       func()      // gives the second server the table
	leads        func() bool // reports whether a new connection leads to the second server
}

// A talk is a connection with what has been said on it.
type talk struct {
	*link
	ways   [2]heard // of the program, of the server
	last   string   // the kind of what the program has asked
	kinds  map[string]string
	old    bool            // it leads to the second server
	silent bool            // nothing passes any more
	slow   int             // so many bytes pass one by one
	held   *sync.WaitGroup // until which nothing passes
	told   *sync.WaitGroup // until which no side knows what has become of the other
}

// heard is what one side has said.
type heard struct {
	mu   sync.Mutex // what is said passes in its order
	rest []byte     // the beginning of a message
	n    int        // messages before
}

// A speech is the protocol of a server.
type speech interface {
	// length returns that of the message that the text begins with; 0: more is needed.
	length(h *heard, answers bool, text []byte) int
	// kind returns that of a whole message. The wire's mutex is held.
	kind(t *talk, h *heard, answers bool, message []byte) string
}

func newWire(t *testing.T, server string, speech speech, blows ...blow) *wire {
	t.Helper()
	w := &wire{proxy: newProxy(t, server), speech: speech, talks: make(map[*link]*talk), kinds: make(map[string]int), blows: blows}
	w.carry = w.pass
	w.ends = func(l *link) {
		t := w.talk(l)
		w.mu.Lock()
		told := t.told
		w.mu.Unlock()
		if told != nil {
			told.Wait()
		}
	}
	w.ended = sync.NewCond(&w.mu)
	t.Cleanup(w.calm)
	return w
}

// isStriking reports whether a blow has struck that is not over.
func (w *wire) isStriking() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.striking > 0
}

// calm makes the network good: what has not struck does not any more.
func (w *wire) calm() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.blows = nil
	for w.striking > 0 {
		w.ended.Wait()
	}
}

// lead has new connections lead to the server that the function says; nil: to the first.
func (w *wire) lead(leads func() bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.leads = leads
}

// hasSecond reports whether connections may lead to the second server.
func (w *wire) hasSecond() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.leads != nil
}

// seen returns how many messages of each kind have passed.
func (w *wire) seen() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return fmt.Sprint(w.kinds)
}

func (w *wire) strikes() (list []blow) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append(list, w.struck...)
}

// talk returns the connection's.
func (w *wire) talk(l *link) *talk {
	w.mu.Lock()
	defer w.mu.Unlock()
	t := w.talks[l]
	if t == nil {
		t = &talk{link: l, kinds: make(map[string]string)}
		t.old = w.leads != nil && w.leads()
		w.talks[l] = t
	}
	return t
}

// pass passes on the messages that the text completes.
func (w *wire) pass(l *link, answers bool, text []byte) error {
	t := w.talk(l)
	h, to := &t.ways[0], l.server
	if answers {
		h, to = &t.ways[1], l.client
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.rest = append(h.rest, text...)
	for {
		n := w.speech.length(h, answers, h.rest)
		if n == 0 || n > len(h.rest) {
			return nil
		}
		message := h.rest[:n:n]
		h.rest = h.rest[n:]
		if err := w.send(t, h, answers, message, to); err != nil {
			return err
		}
		h.n++
	}
}

// send passes one message on, or does what the blow that waits for it does.
func (w *wire) send(t *talk, h *heard, answers bool, message []byte, to net.Conn) error {
	w.mu.Lock()
	kind := w.speech.kind(t, h, answers, message)
	w.kinds[kind]++
	if t.old {
		from, by := w.name, w.second
		if answers {
			from, by = by, from
		}
		message = bytes.ReplaceAll(message, []byte(from), []byte(by))
	}
	b := w.due(kind, answers)
	w.mu.Unlock()
	part := 0
	if b != nil {
		part = int(b.Part*float64(len(message)) + 0.5)
		if err := w.write(t, to, message[:part]); err != nil {
			w.end()
			return err
		}
		w.strike(t, *b)
	}
	return w.write(t, to, message[part:])
}

// due returns the blow that strikes at a message; nil: none does. The wire's mutex is held.
func (w *wire) due(kind string, answers bool) *blow {
	if len(w.blows) == 0 {
		return nil
	}
	b := w.blows[0]
	if b.Answers != answers || b.Kind != kind && b.Kind != "any" {
		return nil
	}
	if w.passed < b.After {
		w.passed++
		return nil
	}
	w.blows = w.blows[1:]
	w.struck = append(w.struck, b)
	w.striking++
	w.passed = 0
	return &b
}

// write writes to one side unless the connection is silent.
func (w *wire) write(t *talk, to net.Conn, text []byte) error {
	for len(text) > 0 {
		w.mu.Lock()
		held, silent, slow := t.held, t.silent, t.slow
		n := len(text)
		if slow > 0 {
			n = 1
			t.slow--
		}
		w.mu.Unlock()
		if held != nil {
			held.Wait()
			w.mu.Lock()
			if t.held == held {
				t.held = nil
			}
			w.mu.Unlock()
			continue
		}
		if silent {
			return nil
		}
		if _, err := to.Write(text[:n]); err != nil {
			return err
		}
		if slow > 0 {
			time.Sleep(time.Duration(rand.IntN(2)) * time.Millisecond)
		}
		text = text[n:]
	}
	return nil
}

// end notes that a blow is over.
func (w *wire) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.striking--
	w.ended.Broadcast()
}

// strike begins what the blow does.
func (w *wire) strike(t *talk, b blow) {
	w.mu.Lock()
	list := []*talk{t}
	if b.All {
		list = list[:0]
		for _, other := range w.talks {
			list = append(list, other)
		}
	}
	end := func() {}
	cut := func() {
		for _, t := range list {
			reset(t.client)
			reset(t.server)
		}
	}
	switch b.What {
	case blowReset:
		cut()
	case blowHalf, blowVanish:
		told := new(sync.WaitGroup)
		told.Add(1)
		for _, t := range list {
			t.silent = true
			t.told = told
			if b.What == blowVanish {
				hang(t.server)
			}
		}
		end = func() {
			cut()
			told.Done()
		}
	case blowStall:
		held := new(sync.WaitGroup)
		held.Add(1)
		for _, t := range list {
			t.held = held
		}
		end = held.Done
	case blowTrickle:
		for _, t := range list {
			t.slow = 2000
		}
	case blowRefuse:
		w.refuse(true)
		cut()
		end = func() { w.refuse(false) }
	case blowPromote:
		w.leads = func() bool { return true }
		cut()
	}
	w.mu.Unlock()
	if b.What == blowCopy {
		w.copies()
	}
	time.AfterFunc(b.Lasts, func() {
		end()
		w.end()
	})
}

// hang ends the server's side, as the server sees it: the proxy goes on to read from the program.
func hang(server net.Conn) {
	if c, ok := server.(*net.TCPConn); ok {
		c.CloseWrite()
	}
}

// classify returns the kind of a statement.
func classify(text []byte) string {
	s := strings.ToUpper(string(text))
	starts := func(words ...string) bool {
		for _, word := range words {
			if strings.HasPrefix(strings.TrimLeft(s, " \n\t"), word) {
				return true
			}
		}
		return false
	}
	switch {
	case strings.Contains(s, "ADVISORY"), strings.Contains(s, "_LOCK("):
		return "lock"
	case starts("BEGIN", "START TRANSACTION"):
		return "begin"
	case starts("COMMIT"):
		return "commit"
	case starts("UPDATE", "WITH WRITTEN"):
		return "write"
	case starts("SELECT") && strings.Contains(s, "BACKLOG"):
		return "read"
	}
	return "other"
}

// speaksPostgres is version 3 of PostgreSQL's protocol, without TLS.
type speaksPostgres struct{}

func (speaksPostgres) length(h *heard, answers bool, text []byte) int {
	head := 1
	if !answers && h.n == 0 {
		head = 0
	}
	if len(text) < head+4 {
		return 0
	}
	return head + int(binary.BigEndian.Uint32(text[head:]))
}

func (speaksPostgres) kind(t *talk, h *heard, answers bool, m []byte) string {
	if answers {
		return t.last
	}
	kind := "other"
	switch {
	case h.n == 0, m[0] == 'p':
		kind = "login"
	case m[0] == 'Q':
		kind = classify(m[5:])
	case m[0] == 'P':
		name, text, _ := bytes.Cut(m[5:], []byte{0})
		t.kinds[string(name)] = classify(text)
		kind = "prepare"
	case m[0] == 'B':
		_, rest, _ := bytes.Cut(m[5:], []byte{0})
		name, _, _ := bytes.Cut(rest, []byte{0})
		kind = t.kinds[string(name)]
	case bytes.IndexByte([]byte("CDEHS"), m[0]) >= 0:
		return "other" // the end of what was asked
	}
	t.last = kind
	return kind
}

// speaksMySQL is MySQL's protocol, without TLS and compression.
type speaksMySQL struct{}

func (speaksMySQL) length(_ *heard, _ bool, text []byte) int {
	if len(text) < 4 {
		return 0
	}
	return 4 + int(text[0]) + int(text[1])<<8 + int(text[2])<<16
}

func (speaksMySQL) kind(t *talk, h *heard, answers bool, m []byte) string {
	const sequence, command = 3, 4
	if answers {
		if kind, ok := t.kinds["new"]; ok && len(m) >= 9 && m[command] == 0 {
			t.kinds[fmt.Sprint(binary.LittleEndian.Uint32(m[5:]))] = kind
			delete(t.kinds, "new")
		}
		if h.n == 0 {
			return "login"
		}
		return t.last
	}
	kind := "other"
	switch {
	case h.n == 0 || m[sequence] != 0:
		kind = "login"
	case len(m) <= command:
	case m[command] == 3:
		kind = classify(m[5:])
	case m[command] == 0x16:
		t.kinds["new"] = classify(m[5:])
		kind = "prepare"
	case m[command] == 0x17 && len(m) >= 9:
		kind = t.kinds[fmt.Sprint(binary.LittleEndian.Uint32(m[5:]))]
	case m[command] == 0x0e:
		kind = "ping"
	}
	t.last = kind
	return kind
}

// speaksAMQP is AMQP 0-9-1. A message is a frame.
type speaksAMQP struct{}

func (speaksAMQP) length(h *heard, answers bool, text []byte) int {
	const header, end = 7, 1
	switch {
	case !answers && h.n == 0:
		return len("AMQP\x00\x00\x09\x01")
	case len(text) < header:
		return 0
	}
	return header + int(binary.BigEndian.Uint32(text[3:])) + end
}

func (speaksAMQP) kind(_ *talk, h *heard, answers bool, m []byte) string {
	const isMethod, isHeartbeat, header = 1, 8, 7
	switch {
	case !answers && h.n == 0:
		return "login"
	case m[0] == isHeartbeat:
		return "heartbeat"
	case m[0] != isMethod || len(m) < header+4:
		return "content"
	}
	switch method := binary.BigEndian.Uint32(m[header:]); {
	case method == basicPublish:
		return "publish"
	case method == basicDeliver:
		return "deliver"
	case method == basicAck:
		return "ack"
	case method>>16 == 10:
		return "login"
	}
	return "declare"
}
