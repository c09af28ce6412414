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

const (
	// answerTimeout is how long the broker may take to answer. The client's own calls wait
	// for ever on a connection that is half open.
	answerTimeout = 10 * time.Second

	heartbeat = 10 * time.Second
)

// A session is the connections to one broker and their channels. It has two connections, one
// to publish and one to consume, since the broker stops reading from a connection that
// publishes while it is short of memory. If any part of a session closes, the whole session
// ends: a delivery must never be acknowledged on another channel than its own.
type session struct {
	conns   []*amqp.Connection
	sockets []net.Conn
	publish *amqp.Channel // in confirm mode; not replaced while there are senders
	consume *amqp.Channel // nil in a session that only publishes
	returns <-chan amqp.Return
	major   int             // the major version of the broker
	ctx     context.Context // done when the session has ended; the cause is why
	end     context.CancelCauseFunc
	closed  chan struct{} // closed when the connections are

	prepared        atomic.Bool  // it is or was ready for use
	endLogged       bool         // why it has ended is in the log; guarded by sessionKeeper.dialMu
	renewable       atomic.Bool  // a closed publishing channel is replaced and does not end the session
	onLateConfirm   func()       // called when a publish confirm does not come in time
	largestAccepted atomic.Int64 // the largest body that the broker has taken, in bytes

	mu      sync.Mutex                    // guards conns and sockets
	blocked atomic.Pointer[amqp.Blocking] // the last connection.blocked or unblocked; nil: neither has come

	senders        atomic.Int64    // calls of send that wait for confirms; increased with publishMu held
	returnsPending atomic.Int64    // 0: returned is empty, and nothing is being moved to it
	publishMu      sync.Mutex      // guards publish and returned, and the order of publishing
	returned       map[string]bool // names of messages that no queue has taken
}

// maxReturns bounds the returned messages that wait to be collected, of all senders together. One
// sender has at most [backlog.MaxGroup].
const maxReturns = 4096

// dial opens a session with one of the nodes, tried in random order. It has a connection for
// each purpose; the first purpose is "publish". An error wraps backlog.ErrUnavailable if a
// later try may succeed, and shows no password.
func dial(ctx context.Context, s *Settings, purposes ...string) (*session, error) {
	errs := make([]error, len(s.URL))
	for _, i := range rand.Perm(len(s.URL)) {
		sess, err := dialNode(ctx, s, s.URL[i], purposes)
		if err == nil {
			return sess, nil
		}
		errs[i] = err
	}
	return nil, errors.Join(errs...)
}

// A sessionKeeper keeps a session, and opens a new one when that has ended. Methods may be
// called concurrently.
type sessionKeeper struct {
	dialMu sync.Mutex
	last   atomic.Pointer[session]
	opened bool // a session was opened before: later errors of the configuration are taken as temporary

	logMu         sync.Mutex
	lastLogged    string // the text of the last error in the log
	lastLoggedAt  time.Time
	unavailableAt time.Time // when the broker was unavailable last
}

// logError logs an error of the broker and returns it. The same error is logged at most once a
// minute. That the broker is unavailable is logged by the caller; only when the reason changes
// is the new one logged here, at most every 10 s.
func (k *sessionKeeper) logError(log *slog.Logger, err error) error {
	if log == nil || err == nil {
		return err
	}
	k.logMu.Lock()
	defer k.logMu.Unlock()
	now := time.Now()
	sameText := err.Error() == k.lastLogged
	sinceLast := now.Sub(k.lastLoggedAt)
	if !errors.Is(err, backlog.ErrUnavailable) {
		loggedLately := sameText && sinceLast < time.Minute
		if errors.Is(err, context.Canceled) || loggedLately {
			return err
		}
		k.lastLogged = err.Error()
		k.lastLoggedAt = now
		log.Error("the broker refuses something", "error", err)
		return err
	}
	first := now.Sub(k.unavailableAt) > time.Minute
	k.unavailableAt = now
	tooSoon := !first && sinceLast < answerTimeout
	if errors.Is(err, context.Canceled) || sameText || tooSoon {
		return err
	}
	k.lastLogged = err.Error()
	k.lastLoggedAt = now
	if !first {
		log.Error("the broker is still unavailable, now for another reason", "error", err)
	}
	return err
}

// current returns the last session, nil if there was none.
func (k *sessionKeeper) current() *session { return k.last.Load() }

// up reports whether there is a session.
func (k *sessionKeeper) up() bool {
	sess := k.current()
	return sess != nil && !sess.ended()
}

// open returns the session. If the last has ended it dials a new one and calls prepare with it.
func (k *sessionKeeper) open(ctx context.Context, log *slog.Logger, s *Settings, prepare func(*session) error) (*session, error) {
	if sess := k.current(); sess.usable() {
		return sess, nil // the usual case, without the lock
	}
	k.dialMu.Lock()
	defer k.dialMu.Unlock()
	last := k.current()
	if last.usable() { // another call has opened it
		return last, nil
	}
	if last != nil && last.prepared.Load() && !last.endLogged {
		last.endLogged = true
		k.logError(log, last.reason())
	}
	sess, err := dial(ctx, s, "publish", "consume")
	if err == nil {
		sess.onLateConfirm = func() { k.logLateConfirm(log, sess) }
		k.last.Store(sess)
		err = prepare(sess)
		if err != nil {
			sess.end(err)
		}
	}
	if err == nil {
		sess.prepared.Store(true)
		k.opened = true
		return sess, nil
	}
	if k.opened && !errors.Is(err, backlog.ErrUnavailable) {
		k.logError(log, err)
		err = unavailable(err) // it worked before, so it may be corrected
	}
	return sess, err
}

// logLateConfirm logs why the session is late to confirm a message. The error is logged by its text
// alone: logError leaves a [backlog.ErrUnavailable] to its caller, and no caller is there to log it.
func (k *sessionKeeper) logLateConfirm(log *slog.Logger, sess *session) {
	reason := cmp.Or(sess.err(), errConfirmLate)
	k.logError(log, errors.New(reason.Error()))
}

// usable reports whether there is a session that is prepared and has not ended. sess may be nil.
func (sess *session) usable() bool {
	return sess != nil && sess.prepared.Load() && !sess.ended()
}

// dialNode opens a session with the node at url. A broker that refuses a password ends the connection
// without a word, and so does a broken network. So a login counts as refused only after a second one.
func dialNode(ctx context.Context, s *Settings, url string, purposes []string) (*session, error) {
	sess, err := openNode(ctx, s, url, purposes)
	if errors.Is(err, errRefusedLogin) {
		return openNode(ctx, s, url, purposes)
	}
	return sess, err
}

// openNode logs in to the node at url once, and opens a session.
func openNode(ctx context.Context, s *Settings, url string, purposes []string) (*session, error) {
	sess := &session{closed: make(chan struct{}), returned: make(map[string]bool), onLateConfirm: func() {}}
	sess.ctx, sess.end = context.WithCancelCause(context.Background())
	context.AfterFunc(sess.ctx, sess.closeConnections)
	err := sess.withTimeout(ctx, func() error { return sess.open(s, url, purposes) })
	if err != nil {
		sess.end(err)
		sess.closeSockets() // those too that were opened after end
		uri, _ := amqp.ParseURI(url)
		var hint string
		switch {
		case errors.As(err, new(tls.RecordHeaderError)):
			hint = "; if this port is one without TLS, write amqp://"
		case uri.Scheme == "amqps" && uri.CertFile == "": // a refusal may arrive as a connection reset
			hint = "; if it wants a certificate, the URL names it by ?certfile=…&keyfile=…"
		}
		reason := explain(err)
		if refusesVhost(err) {
			reason = errNoVhost(fmt.Sprintf("vhost %q", uri.Vhost))
		}
		return nil, fmt.Errorf("%s: %w%s", net.JoinHostPort(uri.Host, strconv.Itoa(uri.Port)), reason, hint)
	}
	return sess, nil
}

// open opens the connections and channels. Without TLS the one that consumes has no limit of
// its frame size, see [tuneConn].
func (sess *session) open(s *Settings, url string, purposes []string) error {
	for _, purpose := range purposes {
		frameSize := 0 // the client's default
		unlimited := purpose == "consume" && strings.HasPrefix(url, "amqp:")
		if unlimited {
			frameSize = amqp.FrameSizeUnlimited
		}
		c, err := amqp.DialConfig(url, amqp.Config{
			Heartbeat:  heartbeat,
			FrameSize:  frameSize,
			Properties: amqp.Table{"connection_name": s.Name + " " + purpose, "product": "backlog"},
			Dial: func(network, addr string) (net.Conn, error) {
				socket, err := amqp.DefaultDial(answerTimeout)(network, addr)
				if err == nil {
					sess.mu.Lock()
					sess.sockets = append(sess.sockets, socket)
					sess.mu.Unlock()
				}
				if err == nil && unlimited {
					return newTuneConn(socket), nil
				}
				return socket, err
			},
		})
		if err != nil {
			return err
		}
		sess.mu.Lock()
		sess.conns = append(sess.conns, c)
		sess.mu.Unlock()
		version, _ := c.Properties["version"].(string)
		sess.major, _ = strconv.Atoi(strings.SplitN(version, ".", 2)[0])
		go sess.watch(c.NotifyClose(make(chan *amqp.Error, 1)))
		go sess.watchBlocked(c.NotifyBlocked(make(chan amqp.Blocking, 1)))
	}
	err := sess.openPublish()
	if err == nil && len(purposes) > 1 {
		sess.consume, err = sess.conns[1].Channel()
	}
	if err == nil && sess.consume != nil {
		go sess.watch(sess.consume.NotifyClose(make(chan *amqp.Error, 1)))
	}
	return err
}

// openPublish opens the channel that publishes, and puts it into confirm mode.
func (sess *session) openPublish() error {
	ch, err := sess.conns[0].Channel()
	sess.publish = ch
	if err != nil {
		return err
	}
	sess.returns = sess.publish.NotifyReturn(make(chan amqp.Return, maxReturns))
	go sess.watchPublish(sess.publish.NotifyClose(make(chan *amqp.Error, 1)))
	return sess.publish.Confirm(false)
}

// watchPublish ends the session when the publishing channel closes, unless the channel can be
// replaced.
func (sess *session) watchPublish(closed <-chan *amqp.Error) {
	for err := range closed {
		if !sess.canReplaceChannel() {
			sess.end(err)
		}
	}
}

// canReplaceChannel reports whether a closed publishing channel is to be replaced. If the
// connection is still open, the broker has closed the channel for a message that it refuses.
func (sess *session) canReplaceChannel() bool {
	return sess.renewable.Load() && !sess.conns[0].IsClosed()
}

// watch ends the session when a connection or channel is closed by the broker or the network.
func (sess *session) watch(closed <-chan *amqp.Error) {
	for err := range closed {
		sess.end(err)
	}
}

// renewChannel replaces the publishing channel. sess.publishMu must be held, and there must be
// no senders.
func (sess *session) renewChannel(ctx context.Context) {
	old := sess.publish
	err := sess.withTimeout(ctx, func() error { return cmp.Or(sess.openPublish(), old.Close()) })
	if err != nil {
		sess.end(err)
	}
}

// watchBlocked notes when the broker blocks publishers, and when it unblocks them.
func (sess *session) watchBlocked(blocked <-chan amqp.Blocking) {
	for b := range blocked {
		sess.blocked.Store(&b)
	}
}

// withTimeout calls f, which calls the broker. It closes the sockets, which makes f fail, if f
// takes longer than answerTimeout or ctx is done.
func (sess *session) withTimeout(ctx context.Context, f func() error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, answerTimeout, fmt.Errorf("the broker has not answered within %v; it hangs, or the network drops what is sent", answerTimeout))
	defer cancel()
	stop := context.AfterFunc(ctx, sess.closeSockets)
	err := f()
	interrupted := !stop()
	if interrupted && err != nil {
		return context.Cause(ctx)
	}
	return err
}

// closeSockets closes the sockets, which ends every call of the client.
func (sess *session) closeSockets() {
	sess.mu.Lock()
	defer sess.mu.Unlock()
	for _, s := range sess.sockets {
		s.Close()
	}
}

// closeConnections closes the connections of a session that has ended, by force after a
// second. The broker then redelivers what was not acknowledged.
func (sess *session) closeConnections() {
	force := time.AfterFunc(time.Second, sess.closeSockets)
	sess.mu.Lock()
	conns := slices.Clone(sess.conns)
	sess.mu.Unlock()
	for _, c := range conns {
		_ = c.CloseDeadline(time.Now().Add(time.Second))
	}
	force.Stop()
	sess.closeSockets()
	close(sess.closed)
}

var errClosed = errors.New("closed")

// close ends the session and waits until its connections are closed.
func (sess *session) close() {
	sess.end(errClosed)
	<-sess.closed
}

// consumerCancelled is called when a consumer has ended by itself. It ends the session and
// returns why.
func (sess *session) consumerCancelled(queue string) error {
	if !sess.consume.IsClosed() { // a closed channel ends the session itself, with a better reason
		sess.end(fmt.Errorf("the broker has ended the consumer; is the queue %s still there?", queue))
	}
	<-sess.ctx.Done()
	return sess.err()
}

// reason returns why the session has ended.
func (sess *session) reason() error { return explain(context.Cause(sess.ctx)) }

// err returns why the session cannot be used now: it has ended, or the broker blocks
// publishers. The error wraps backlog.ErrUnavailable.
func (sess *session) err() error {
	if sess.ended() {
		return unavailable(sess.reason())
	}
	if b := sess.blocked.Load(); b != nil && b.Active {
		return unavailable(fmt.Errorf("the broker takes no messages for now: %s; `rabbitmqctl status` shows its alarms", b.Reason))
	}
	return nil
}

// refusesVhost reports whether the vhost does not exist, or the user may not use it.
func refusesVhost(err error) bool {
	e, ok := errors.AsType[*amqp.Error](err)
	return ok && e != amqp.ErrVhost && e.Code == amqp.NotAllowed && strings.Contains(e.Reason, "vhost")
}

// errNoVhost returns the error for a vhost that does not exist or may not be used.
func errNoVhost(name string) error {
	return fmt.Errorf("the broker has no %s, or the user may not use it; `rabbitmqctl list_vhosts`, `list_permissions` and `list_vhost_limits` show why", name)
}

var errRefusedLogin = errors.New("the broker refuses the user or the password of the URL")

const noBroker = "; does RabbitMQ run and listen there?"

// explain returns an error that says what an error of the broker means and what to do about it.
// It wraps backlog.ErrUnavailable if the trouble may pass by itself.
func explain(err error) error {
	var e *amqp.Error
	var socket *net.OpError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &socket): // not its own text, which has a port that changes each time
		return unavailable(fmt.Errorf("%s: %w"+noBroker, socket.Op, socket.Err))
	case errors.As(err, new(*tls.CertificateVerificationError)):
		return fmt.Errorf("%w; the URL names its CA by ?cacertfile=ca.pem", err)
	case errors.Is(err, amqp.ErrCredentials) || errors.As(err, &e) && e.Code == amqp.AccessRefused && strings.Contains(e.Reason, "login"):
		return errRefusedLogin
	case errors.Is(err, amqp.ErrVhost): // the client guesses: RabbitMQ says which vhost it refuses
		return unavailable(errors.New("the connection was lost during the login" + noBroker))
	case refusesVhost(err):
		return errNoVhost("vhost like that of the URL")
	case e == nil:
		return unavailable(err)
	case e.Code == amqp.FrameError:
		parts := strings.Split(e.Reason, ": ") // without the port
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

// unavailable returns an error with the text of err that wraps backlog.ErrUnavailable.
func unavailable(err error) error { return backlog.Worded(err.Error(), err, backlog.ErrUnavailable) }

// withChannel calls f with a channel of its own, since the broker closes a channel for every
// error.
func (sess *session) withChannel(ctx context.Context, f func(*amqp.Channel) error) error {
	return sess.withTimeout(ctx, func() error {
		ch, err := sess.conns[0].Channel()
		if err != nil {
			return err
		}
		defer ch.Close()
		return f(ch)
	})
}

// onlyError drops the first result of a call and returns its error.
func onlyError[T any](_ T, err error) error { return err }

// get takes a message from the queue. ok is false if the queue is empty.
func (sess *session) get(ctx context.Context, queue string) (d amqp.Delivery, ok bool, err error) {
	err = sess.withTimeout(ctx, func() error {
		d, ok, err = sess.consume.Get(queue, false)
		return err
	})
	return d, ok, explain(err)
}

// ended reports whether the session has ended.
func (sess *session) ended() bool { return sess.ctx.Err() != nil }
