package cmd_test

import (
	"bytes"
	"net"
	"sync"
	"testing"
)

// A proxy stands between the program and a server, and makes the network fail.
type proxy struct {
	t        *testing.T
	listener net.Listener
	server   string

	mu      sync.Mutex
	links   map[*link]bool
	refuses bool
	heard   *sync.Cond // deaf or closed has changed
	deaf    bool       // nothing passes, and nobody is told
	closed  bool
	trap    func(*link, []byte) fate // nil: none is set
	snatch  string                   // the answer with it is not passed on, once; "": all are
	sprung  int                      // how many traps have been
	counted string                   // what is counted in answers; "": nothing is
	count   int                      // how many have had it
	before  func()                   // is called before an answer is kept back; nil: nothing is

	// spy, unless nil, reports whether what is said, by the server if it answers, is passed
	// on, and may return what is to be called then.
	spy func(l *link, answers bool, text []byte) (pass bool, then func())

	// carry, unless nil, passes on what is said instead of the proxy. With an error, the
	// connection ends.
	carry func(l *link, answers bool, text []byte) error
	// ends, unless nil, returns when the one side may know that the other has ended.
	ends func(l *link)
}

// A link is a connection through the proxy.
type link struct {
	client, server net.Conn

	answer bool // the next answer is the last the server says, and is kept back
}

// A fate is what becomes of a connection by what the program sends.
type fate int

const (
	goesOn  fate = iota
	isLost       // it is reset, and the server does not hear what was sent
	isHeard      // it is reset when the server has answered, before the program hears that
)

// newProxy returns a proxy in front of the server's address.
func newProxy(t *testing.T, server string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{t: t, listener: l, server: server, links: make(map[*link]bool)}
	p.heard = sync.NewCond(&p.mu)
	var all sync.WaitGroup
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() { p.serve(c) })
		}
	})
	t.Cleanup(func() {
		p.mu.Lock()
		p.closed = true
		p.heard.Broadcast()
		p.mu.Unlock()
		l.Close()
		p.cut()
		all.Wait()
	})
	return p
}

// addr is where the program connects.
func (p *proxy) addr() string { return p.listener.Addr().String() }

func (p *proxy) serve(client net.Conn) {
	defer client.Close()
	p.mu.Lock()
	refuses := p.refuses || p.closed
	p.mu.Unlock()
	if refuses {
		reset(client)
		return
	}
	server, err := net.Dial("tcp", p.server)
	if err != nil {
		return
	}
	defer server.Close()
	l := &link{client: client, server: server}
	if !p.enter(l) {
		reset(client)
		return
	}
	defer p.leave(l)
	var both sync.WaitGroup
	for _, way := range []struct {
		from, to net.Conn
		pass     func(*link, []byte) bool
	}{{client, server, p.asks}, {server, client, p.answers}} {
		both.Go(func() {
			b := make([]byte, 64<<10)
			for {
				n, err := way.from.Read(b)
				p.listen()
				if err != nil || n > 0 && !way.pass(l, b[:n]) {
					break
				}
				pass, then := true, func() {}
				if p.spy != nil {
					pass, then = p.spy(l, way.from == server, b[:n])
				}
				if !pass {
					break
				}
				if p.carry != nil {
					if p.carry(l, way.from == server, b[:n]) != nil {
						break
					}
					continue
				}
				if _, err := way.to.Write(b[:n]); err != nil {
					break
				}
				then()
			}
			if p.ends != nil {
				p.ends(l)
			}
			client.Close()
			server.Close()
		})
	}
	both.Wait()
}

// listen returns when the proxy is not deaf.
func (p *proxy) listen() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.deaf && !p.closed {
		p.heard.Wait()
	}
}

// asks reports whether the server is to get what the program says.
func (p *proxy) asks(l *link, text []byte) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.trap == nil {
		return true
	}
	f := p.trap(l, text)
	if f == goesOn {
		return true
	}
	p.trap = nil
	p.sprung++
	switch f {
	case isLost:
		reset(l.client)
		return false
	case isHeard:
		l.answer = true
	}
	return true
}

// answers reports whether the program is to get what the server says.
func (p *proxy) answers(l *link, text []byte) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.counted != "" && bytes.Contains(text, []byte(p.counted)) {
		p.count++
	}
	if p.snatch != "" && bytes.Contains(text, []byte(p.snatch)) {
		p.snatch, l.answer = "", true
		p.sprung++
	}
	if l.answer {
		if p.before != nil {
			p.before()
		}
		reset(l.client)
	}
	return !l.answer
}

// set sets a trap, which decides on what any connection of the program sends
// until it is sprung.
func (p *proxy) set(trap func(l *link, text []byte) fate) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.trap = trap
}

// take makes the next answer that has the text in it the last of its
// connection, which the program does not get.
func (p *proxy) take(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.snatch = text
}

// counts begins to count the answers that have the text in them.
func (p *proxy) counts(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.counted, p.count = text, 0
}

// seen returns how many have been counted.
func (p *proxy) seen() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.count
}

// traps returns how many have been sprung.
func (p *proxy) traps() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.sprung
}

// sends reports whether the text is a statement with the word, in capitals, at
// its beginning: a message has no more than a few bytes in front.
func sends(text []byte, word string) bool {
	return bytes.Contains(bytes.ToUpper(text[:min(len(text), 64)]), []byte(word))
}

// enter notes the connection, unless there is to be none.
func (p *proxy) enter(l *link) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.refuses || p.closed {
		return false
	}
	p.links[l] = true
	return true
}

func (p *proxy) leave(l *link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.links, l)
}

// reset closes the connection so that the other side gets an error.
func reset(c net.Conn) {
	if c, ok := c.(*net.TCPConn); ok {
		c.SetLinger(0)
	}
	c.Close()
}

// cut resets all connections.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		reset(l.client)
		reset(l.server)
	}
}

// cutServer resets the server's side of all connections. If the proxy is deaf,
// the program is not told.
func (p *proxy) cutServer() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		reset(l.server)
	}
}

// refuse makes new connections fail, or lets them be made again.
func (p *proxy) refuse(yes bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refuses = yes
}

// stall holds back all that is sent either way, without a word to anybody, or
// lets it go on: what a dead cable does, or a firewall that forgets.
func (p *proxy) stall(yes bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.deaf = yes
	p.heard.Broadcast()
}
