package amqp

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"backlog/backlog"
)

// How long the broker may take to answer. The client's calls have no end of their own
// on a connection that is half open.
const (
	answerWithin = 10 * time.Second
	heartbeat    = 10 * time.Second
)

// A session is two connections, since one that publishes is not read from while the
// broker is short of memory, and their channels. When anything of it closes all of it
// is dropped: deliveries of one are never acknowledged on another.
type session struct {
	conns   []*amqp.Connection
	sockets []net.Conn
	publish *amqp.Channel // in confirm mode; not changed while there are senders
	consume *amqp.Channel // nil where it only publishes
	returns <-chan amqp.Return
	major   int             // of the broker's version
	ctx     context.Context // done: the session is over, and its cause is why
	end     context.CancelCauseFunc
	gone    chan struct{} // closed: and its connections are
	ready   atomic.Bool   // it is made ready to be used
	gentle  atomic.Bool   // the loss of the channel to publish on does not end it
	late    func()        // is called when a confirm does not come
	taken   atomic.Int64  // the largest body that the broker has answered for

	mu      sync.Mutex                    // guards conns and sockets
	blocked atomic.Pointer[amqp.Blocking] // whether the broker takes no messages, and why; nil: it does

	senders    atomic.Int64    // calls of send that wait for confirms; they begin under publishing
	unclear    atomic.Int64    // 0: nothing is in returned, or on its way there
	publishing sync.Mutex      // guards publish, what follows, and the order of what is published
	returned   map[string]bool // names of messages that no queue took
}

// mostReturns bounds the messages that come back before they are looked at, of all who send. A
// sender has at most [backlog.MaxGroup].
const mostReturns = 4096

// dial opens a session with one of the nodes, with a connection for each purpose, the first of
// which is to publish. An error wraps backlog.ErrUnavailable where it may pass, and shows no
// password.
func dial(ctx context.Context, s *Settings, purposes ...string) (*session, error) {
	errs := make([]error, len(s.URL))
	for _, i := range rand.Perm(len(s.URL)) {
		var p *session
		if p, errs[i] = dialNode(ctx, s, s.URL[i], purposes); errs[i] == nil {
			return p, nil
		}
	}
	return nil, errors.Join(errs...)
}

// A link keeps a session, a new one when the last is over. Methods may be called
// concurrently.
type link struct {
	dialing sync.Mutex
	last    atomic.Pointer[session]
	opened  bool // once: an error that no time heals is one of today

	telling sync.Mutex
	told    string // what was logged last, and when
	at      time.Time
	away    time.Time // when the broker was away last
}

// tell logs what somebody must mend, at most once a minute, and why the broker is away
// when that has changed for 10 s: the first reason is the caller's to log. It returns the
// error.
func (l *link) tell(log *slog.Logger, err error) error {
	if log == nil || err == nil {
		return err
	}
	l.telling.Lock()
	defer l.telling.Unlock()
	text := "the broker refuses something"
	now := time.Now()
	waits := errors.Is(err, backlog.ErrUnavailable)
	first := waits && now.Sub(l.away) > time.Minute
	if waits {
		text = "the broker is still away, now for another reason"
		l.away = now
	}
	if errors.Is(err, context.Canceled) || waits && !first && now.Sub(l.at) < answerWithin ||
		err.Error() == l.told && (waits || now.Sub(l.at) < time.Minute) {
		return err
	}
	l.told, l.at = err.Error(), now
	if !first {
		log.Error(text, "error", err)
	}
	return err
}

// current returns the last session, nil if there was none.
func (l *link) current() *session { return l.last.Load() }

// up reports whether there is a connection.
func (l *link) up() bool {
	p := l.current()
	return p != nil && !p.over()
}

// open returns the session, a new one if need be, which prepare has made ready.
func (l *link) open(ctx context.Context, log *slog.Logger, s *Settings, prepare func(*session) error) (*session, error) {
	if p := l.current(); p != nil && p.ready.Load() && !p.over() {
		return p, nil // the rule, and it waits for nobody
	}
	l.dialing.Lock()
	defer l.dialing.Unlock()
	last := l.current()
	if last != nil && !last.over() {
		return last, nil
	} else if last != nil && last.ready.Swap(false) { // once
		l.tell(log, last.why())
	}
	p, err := dial(ctx, s, "publish", "consume")
	if err == nil {
		p.late = func() { l.tell(log, errors.New(cmp.Or(p.err(), errLate).Error())) }
		l.last.Store(p)
		if err = prepare(p); err != nil {
			p.end(err)
		}
	}
	if err != nil && l.opened && !errors.Is(err, backlog.ErrUnavailable) {
		l.tell(log, err)
		err = unavailable(err) // somebody may mend it
	}
	if err == nil {
		p.ready.Store(true)
		l.opened = true
	}
	return p, err
}

func dialNode(ctx context.Context, s *Settings, url string, purposes []string) (*session, error) {
	p := &session{gone: make(chan struct{}), returned: make(map[string]bool), late: func() {}}
	p.ctx, p.end = context.WithCancelCause(context.Background())
	context.AfterFunc(p.ctx, p.hangUp)
	err := p.within(ctx, func() error { return p.open(s, url, purposes) })
	if err != nil {
		p.end(err)
		p.cut() // also what was opened since its end
		uri, _ := amqp.ParseURI(url)
		var hint string // what TLS refuses can come as a reset
		if uri.Scheme == "amqps" && uri.CertFile == "" {
			hint = " If it wants a certificate, the URL names it by ?certfile=…&keyfile=…"
		}
		why := worded(err)
		if refusesVhost(err) {
			why = noVhost(fmt.Sprintf("vhost %q", uri.Vhost))
		}
		return nil, fmt.Errorf("%s: %w%s", net.JoinHostPort(uri.Host, strconv.Itoa(uri.Port)), why, hint)
	}
	return p, nil
}

func (p *session) open(s *Settings, url string, purposes []string) error {
	for _, what := range purposes {
		var size int // the client's own
		reads := what == "consume" && strings.HasPrefix(url, "amqp:")
		if reads {
			size = amqp.FrameSizeUnlimited
		}
		c, err := amqp.DialConfig(url, amqp.Config{
			Heartbeat:  heartbeat,
			FrameSize:  size,
			Properties: amqp.Table{"connection_name": s.Name + " " + what, "product": "backlog"},
			Dial: func(network, addr string) (net.Conn, error) {
				socket, err := amqp.DefaultDial(answerWithin)(network, addr)
				if err == nil {
					p.mu.Lock()
					p.sockets = append(p.sockets, socket)
					p.mu.Unlock()
				}
				if err == nil && reads {
					return newTuned(socket), nil
				}
				return socket, err
			},
		})
		if err != nil {
			return err
		}
		p.mu.Lock()
		p.conns = append(p.conns, c)
		p.mu.Unlock()
		version, _ := c.Properties["version"].(string)
		p.major, _ = strconv.Atoi(strings.SplitN(version, ".", 2)[0])
		go p.watch(c.NotifyClose(make(chan *amqp.Error, 1)))
		go p.watchBlocked(c.NotifyBlocked(make(chan amqp.Blocking, 1)))
	}
	err := p.openPublish()
	if err == nil && len(purposes) > 1 {
		p.consume, err = p.conns[1].Channel()
	}
	if err == nil && p.consume != nil {
		go p.watch(p.consume.NotifyClose(make(chan *amqp.Error, 1)))
	}
	return err
}

// openPublish opens the channel to publish on.
func (p *session) openPublish() (err error) {
	if p.publish, err = p.conns[0].Channel(); err != nil {
		return err
	}
	p.returns = p.publish.NotifyReturn(make(chan amqp.Return, mostReturns))
	go p.watchPublish(p.publish.NotifyClose(make(chan *amqp.Error, 1)))
	return p.publish.Confirm(false)
}

// watchPublish ends the session when the channel to publish on closes, unless it can be
// replaced.
func (p *session) watchPublish(closed <-chan *amqp.Error) {
	for err := range closed {
		if !p.replaces() {
			p.end(err)
		}
	}
}

// replaces reports whether a channel to publish on that was closed is replaced: the broker
// has refused something that was published on it.
func (p *session) replaces() bool { return p.gentle.Load() && !p.conns[0].IsClosed() }

// watch ends the session when one of its parts closes that we have not closed.
func (p *session) watch(closed <-chan *amqp.Error) {
	for err := range closed {
		p.end(err)
	}
}

// renew replaces the channel to publish on. p.publishing must be held, and there are no
// senders.
func (p *session) renew(ctx context.Context) {
	old := p.publish
	if err := p.within(ctx, func() error { return cmp.Or(p.openPublish(), old.Close()) }); err != nil {
		p.end(err)
	}
}

func (p *session) watchBlocked(blocked <-chan amqp.Blocking) {
	for b := range blocked {
		p.blocked.Store(&b)
	}
}

// within calls f, and closes the sockets when the broker does not answer it or ctx is
// done.
func (p *session) within(ctx context.Context, f func() error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, answerWithin, fmt.Errorf("the broker has not answered within %v; it hangs, or the network drops what is sent", answerWithin))
	defer cancel()
	cut := context.AfterFunc(ctx, p.cut)
	err := f()
	if !cut() && err != nil {
		return context.Cause(ctx)
	}
	return err
}

// cut closes the sockets, which ends every call.
func (p *session) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.sockets {
		s.Close()
	}
}

// hangUp closes the connections of a session that is over. Deliveries that were not
// acknowledged are the broker's to give again.
func (p *session) hangUp() {
	force := time.AfterFunc(time.Second, p.cut)
	p.mu.Lock()
	conns := slices.Clone(p.conns)
	p.mu.Unlock()
	for _, c := range conns {
		_ = c.CloseDeadline(time.Now().Add(time.Second))
	}
	force.Stop()
	p.cut()
	close(p.gone)
}

var errClosed = errors.New("closed")

// close ends the session, and returns when its connections are closed.
func (p *session) close() {
	p.end(errClosed)
	<-p.gone
}

// cancelled ends the session, as a consumer has ended, and returns why.
func (p *session) cancelled(queue string) error {
	if !p.consume.IsClosed() { // else the session is about to end, and knows why
		p.end(fmt.Errorf("the broker has ended the consumer; is the queue %s still there?", queue))
	}
	<-p.ctx.Done()
	return p.err()
}

// why returns why the session is over.
func (p *session) why() error { return worded(context.Cause(p.ctx)) }

// err returns why the session is over or cannot be used now, nil if it can. The next one
// may do better.
func (p *session) err() error {
	if p.over() {
		return unavailable(p.why())
	}
	if b := p.blocked.Load(); b != nil && b.Active {
		return unavailable(fmt.Errorf("the broker takes no messages for now: %s; `rabbitmqctl status` shows its alarms", b.Reason))
	}
	return nil
}

// refusesVhost reports whether the broker lets the user into no such vhost.
func refusesVhost(err error) bool {
	e, ok := errors.AsType[*amqp.Error](err)
	return ok && (e == amqp.ErrVhost || e.Code == amqp.NotAllowed && strings.Contains(e.Reason, "vhost"))
}

func noVhost(name string) error {
	return fmt.Errorf("the broker has no %s, or the user may not use it; `rabbitmqctl list_vhosts`, `list_permissions` and `list_vhost_limits` show why", name)
}

const noBroker = "; does RabbitMQ run and listen there?"

// worded says what an error of the broker means and what to do about it. Those that
// time can heal wrap backlog.ErrUnavailable.
func worded(err error) error {
	var e *amqp.Error
	var socket *net.OpError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &socket): // its own text has ports, which change
		return unavailable(fmt.Errorf("%s: %w"+noBroker, socket.Op, socket.Err))
	case errors.As(err, new(*tls.CertificateVerificationError)):
		return fmt.Errorf("%w; the URL names its CA by ?cacertfile=ca.pem", err)
	case errors.Is(err, amqp.ErrCredentials) || errors.As(err, &e) && e.Code == amqp.AccessRefused && strings.Contains(e.Reason, "login"):
		return errors.New("the broker refuses the user or the password of the URL")
	case refusesVhost(err):
		return noVhost("vhost like that of the URL")
	case e == nil:
		return unavailable(err)
	case e.Code == amqp.FrameError:
		parts := strings.Split(e.Reason, ": ") // likewise
		return unavailable(errors.New("the connection was lost: " + parts[len(parts)-1] + noBroker))
	case e.Code == amqp.AccessRefused:
		return backlog.Worded("the user may not do that: "+e.Reason+"; `backlog check --sql` prints a source's rights, docs/workers.md a worker's", e)
	case e.Code == amqp.PreconditionFailed && strings.Contains(e.Reason, "larger than"):
		return fmt.Errorf("%s; the broker needs a larger max_message_size, or a source `error_body: original`", e.Reason)
	case e.Code == amqp.PreconditionFailed && strings.Contains(e.Reason, "inequivalent arg"):
		return backlog.Worded("it is there and was declared otherwise: "+e.Reason+"; name what it has in queue_arguments, or use declare: missing", e)
	case e.Code == amqp.NotFound:
		return backlog.Worded(e.Reason+"; `backlog init` declares it", e)
	case e.Code == amqp.PreconditionFailed && strings.Contains(e.Reason, "timeout"):
		return unavailable(fmt.Errorf("a message was not acknowledged in time (%s); handlers need a shorter timeout, or the broker a longer consumer_timeout", e.Reason))
	}
	return unavailable(errors.New(e.Reason))
}

// unavailable returns the error as one that may pass.
func unavailable(err error) error { return backlog.Worded(err.Error(), err, backlog.ErrUnavailable) }

// probe calls f with a channel of its own: an error of the broker closes it.
func (p *session) probe(ctx context.Context, f func(*amqp.Channel) error) error {
	return p.within(ctx, func() error {
		ch, err := p.conns[0].Channel()
		if err != nil {
			return err
		}
		defer ch.Close()
		return f(ch)
	})
}

// errorOf returns the error of a call whose other result does not matter.
func errorOf[T any](_ T, err error) error { return err }

// get takes a message from the queue, if it has one.
func (p *session) get(ctx context.Context, queue string) (d amqp.Delivery, ok bool, err error) {
	err = p.within(ctx, func() error {
		d, ok, err = p.consume.Get(queue, false)
		return err
	})
	return d, ok, worded(err)
}

// A message is one to be published.
type message struct {
	exchange, key string
	amqp.Publishing
}

// name tells messages apart where the broker may take one and not the other.
func (m message) name() string {
	return fmt.Sprint(m.exchange, "\n", m.key, "\n", integer(m.Headers["backoff"]), "\n", m.MessageId)
}

// errReturned says that no queue takes a message.
var errReturned = errors.New("no queue is bound for it")

// errUnknown says that the broker has closed the channel, for this message or another: it may
// have this one.
var errUnknown = unavailable(errors.New("the broker has closed the channel before it has confirmed the message"))

// errNacked says that the broker has not taken a message.
var errNacked = errors.New("the broker has refused it, as by a queue that is full, or whose nodes are down: `rabbitmqctl list_queues name messages policy arguments online` shows why")

// errLate says that a confirm has not come.
var errLate = fmt.Errorf("a message is not confirmed after %v; has a quorum queue lost most of its nodes? `rabbitmqctl list_queues name online` shows them", answerWithin)

// send publishes the messages and waits until the broker has answered for all, while
// others may send, too. It returns an error for each, nil where a queue has it. The other
// error says that nothing is known: the session is over, as it is when ctx is done
// meanwhile. Messages with the same name share their fate; two calls at a time have none in common.
// A channel that the broker closes leaves messages with errUnknown where the session replaces it.
func (p *session) send(ctx context.Context, list []message) ([]error, error) {
	defer context.AfterFunc(ctx, p.cut)() // a publish that has begun ends with its socket alone
	errs := make([]error, len(list))
	ch, confirms, err := p.publishAll(list)
	if err != nil {
		p.end(err)
		return errs, p.err()
	}
	var refused bool
	for i, confirm := range confirms {
		acked, err := p.confirmed(ch, confirm)
		switch {
		case errors.Is(err, errUnknown):
			errs[i] = err
		case err != nil:
			return errs, err
		case !acked:
			errs[i] = errNacked
			refused = true
		}
	}
	// A message that is returned comes before its confirm. Whoever takes it makes that unclear
	// before: with nothing there, and then nothing unclear, all have a queue.
	nothing := len(p.returns) == 0
	last := p.senders.Add(-1) == 0
	if nothing && p.unclear.Load() == 0 && !refused {
		return errs, nil
	}
	p.publishing.Lock()
	defer p.publishing.Unlock()
	p.takeReturned(list, errs)
	// RabbitMQ 3.10 refuses on a channel for ever what it has refused once while
	// the node that led the queue was down.
	if refused && last && p.senders.Load() == 0 && !p.over() {
		p.renew(ctx)
	}
	return errs, nil
}

// takeReturned notes which of the messages no queue has taken. p.publishing must be held.
func (p *session) takeReturned(list []message, errs []error) {
	p.unclear.Store(1)
	for range len(p.returns) {
		r := <-p.returns
		p.returned[message{r.Exchange, r.RoutingKey, amqp.Publishing{Headers: r.Headers, MessageId: r.MessageId}}.name()] = true
	}
	for i, m := range list {
		if p.returned[m.name()] {
			errs[i] = errReturned
		}
	}
	for _, m := range list {
		delete(p.returned, m.name())
	}
	p.unclear.Store(int64(len(p.returned)))
}

// publishAll publishes the messages and returns the channel and a confirm for each, nil where
// the broker has closed the channel before.
func (p *session) publishAll(list []message) (ch *amqp.Channel, confirms []*amqp.DeferredConfirmation, err error) {
	p.publishing.Lock()
	defer p.publishing.Unlock()
	if err := p.replace(); err != nil {
		return nil, nil, err
	}
	p.senders.Add(1)
	confirms = make([]*amqp.DeferredConfirmation, len(list))
	for i, m := range list {
		m.DeliveryMode = amqp.Persistent
		confirms[i], err = p.publish.PublishWithDeferredConfirm(m.exchange, m.key, true, false, m.Publishing)
		if errors.Is(err, amqp.ErrClosed) && p.replaces() {
			break
		}
		if err != nil {
			return nil, nil, err
		}
	}
	return p.publish, confirms, nil
}

// replace replaces a channel that the broker has closed, when none waits for its confirms
// any more. p.publishing must be held.
func (p *session) replace() error {
	for p.publish.IsClosed() && p.replaces() {
		if p.senders.Load() == 0 {
			clear(p.returned)
			p.unclear.Store(0)
			return p.within(p.ctx, p.openPublish)
		}
		p.publishing.Unlock() // who waits has its answer, and needs the lock
		time.Sleep(time.Millisecond)
		p.publishing.Lock()
	}
	return nil
}

// post is send for one message.
func (p *session) post(ctx context.Context, m message) (refused, err error) {
	errs, err := p.send(ctx, []message{m})
	return errs[0], err
}

// confirmed waits until the broker has answered for a message, and reports whether it has
// taken it. An error says that nobody knows: the session is over.
func (p *session) confirmed(ch *amqp.Channel, c *amqp.DeferredConfirmation) (acked bool, err error) {
	if c == nil {
		return false, errUnknown
	}
	defer time.AfterFunc(answerWithin, p.late).Stop()
	select {
	case <-c.Done():
	case <-p.ctx.Done():
	}
	closed := !c.Acked() && ch.IsClosed()
	if closed && !p.over() && p.replaces() {
		return false, errUnknown
	}
	if p.over() || closed {
		<-p.ctx.Done() // why, is known by then
		return false, p.err()
	}
	return c.Acked(), nil
}

func (p *session) over() bool { return p.ctx.Err() != nil }
