package backlog

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"backlog/tiers"
)

// A SnoozeTime says until when a record is snoozed: until a time if that is set, or else for a while
// after the end of the attempt.
type SnoozeTime struct {
	For   time.Duration
	Until time.Time
}

// isNone reports whether it is for no time at all.
func (t SnoozeTime) isNone() bool { return t.Until.IsZero() && t.For <= 0 }

// After returns until when a record is snoozed whose attempt has ended at that time: at most for
// [MaxSnooze], and at least until then.
func (t SnoozeTime) After(end time.Time) time.Time {
	longest := end.Add(MaxSnooze)
	until := t.Until
	if until.IsZero() {
		until = end.Add(min(t.For, MaxSnooze))
	}
	if until.After(longest) {
		return longest
	}
	if until.Before(end) { // so that no row is due since a time before the attempt
		return end
	}
	return until
}

// String returns "for 1h30m" or "until 2027-01-31T08:00:00Z".
func (t SnoozeTime) String() string {
	if t.Until.IsZero() {
		return "for " + tiers.FormatDuration(t.For)
	}
	return "until " + TimeText(t.Until)
}

// ParseSnooze reads until when a handler snoozes a record. The value is written as every kind of handler
// writes it: seconds as a number, or a text of seconds, of a duration such as 90m or 3d, or of a time by
// RFC 3339.
func ParseSnooze(value any) (SnoozeTime, error) {
	if number, ok := value.(float64); ok { // of JSON
		value = strconv.FormatFloat(number, 'f', -1, 64)
	}
	text, _ := value.(string)
	text = strings.TrimSpace(text)
	if text == "" {
		return SnoozeTime{}, errors.New("it says no time; " + snoozeHint)
	}
	t, ok := snoozeTime(text)
	if !ok {
		return SnoozeTime{}, fmt.Errorf("%.100q is no time; %s", text, snoozeHint)
	}
	return t, nil
}

// snoozeHint says how a snooze is written.
const snoozeHint = "write seconds, a duration such as 90m or 3d, or a time such as 2027-01-31T08:00:00Z"

// snoozeTime reads each of the notations of [ParseSnooze].
func snoozeTime(text string) (t SnoozeTime, ok bool) {
	isNumber := strings.Trim(text, "0123456789.") == ""
	if isNumber {
		seconds, err := strconv.ParseFloat(text, 64)
		t.For = time.Duration(min(seconds, MaxSnooze.Seconds()) * float64(time.Second))
		isTooLarge := errors.Is(err, strconv.ErrRange)
		return t, err == nil || isTooLarge
	}
	if at, err := time.Parse(time.RFC3339, strings.ToUpper(text)); err == nil && !at.IsZero() {
		return SnoozeTime{Until: at}, true
	}
	wait, err := tiers.ParseDuration(text)
	if err != nil || wait < 0 {
		return SnoozeTime{}, false
	}
	return SnoozeTime{For: wait}, true
}

// snoozes remembers until when records are snoozed, by the hashes of their keys, where the store
// keeps no such time. Its methods may be called concurrently.
type snoozes struct {
	until     *lru.Cache[uint64, time.Time]
	adding    sync.Mutex
	swept     time.Time   // when those that were over were last removed; guarded by adding
	forgotten atomic.Bool // one was, before it was over
	refused   atomic.Bool // a row that should have kept one did not
}

func newSnoozes() *snoozes {
	s := new(snoozes)
	s.until, _ = lru.New[uint64, time.Time](maxRemembered) // an error would be a size of 0
	return s
}

// sweepEvery is how often a memory that is full is searched for snoozes that are over.
const sweepEvery = time.Minute

// add remembers a snooze at the time now. While the memory is full of others that are not over it
// remembers no further one: if it forgot the oldest instead, a pass over more records than it holds would
// forget each of them before it comes to it again. It reports whether that happens for the first time.
func (s *snoozes) add(hash uint64, until, now time.Time) (forgetsFirst bool) {
	s.adding.Lock()
	defer s.adding.Unlock()
	if !s.until.Contains(hash) && !s.hasRoom(now) {
		return s.forgotten.CompareAndSwap(false, true)
	}
	s.until.Add(hash, until)
	return false
}

// hasRoom reports whether one more snooze can be remembered without forgetting one that is not over.
// adding must be held.
func (s *snoozes) hasRoom(now time.Time) bool {
	_, oldest, _ := s.until.GetOldest()
	if s.until.Len() < maxRemembered || !oldest.After(now) {
		return true
	}
	if now.Sub(s.swept) < sweepEvery {
		return false
	}
	s.swept = now
	for _, hash := range s.until.Keys() {
		if s.at(hash, now).IsZero() {
			s.until.Remove(hash)
		}
	}
	return s.until.Len() < maxRemembered
}

// at returns until when the record is snoozed at the time now, zero if it is not.
func (s *snoozes) at(hash uint64, now time.Time) time.Time {
	until, ok := s.until.Peek(hash)
	if !ok || !until.After(now) {
		return time.Time{}
	}
	return until
}

// errForgotten says what it means that a snooze is forgotten.
var errForgotten = errors.New("their records are tried again before their time; map table.eligible, so that rows keep it")

// snooze keeps in memory until when a record is snoozed that no row keeps. A queue does not give the
// same record again.
func (e *Engine) snooze(tier string, hash uint64, until time.Time) {
	if e.queue == nil && e.snoozed.add(hash, until, e.Now()) {
		e.emit(Event{Kind: SnoozesForgotten, Tier: tier, N: maxRemembered, Err: fmt.Errorf("more than %d records are snoozed in memory: %w", maxRemembered, errForgotten)})
	}
}

// keepRefused keeps in memory a snooze that the database does not take, as where no row keeps it. The
// record itself can be settled, so that it is no reason to leave it alone, or to end the pass.
func (e *Engine) keepRefused(x *ending) {
	isSnooze := x.outcome == Snoozed && !x.Until.IsZero()
	if !isSnooze || e.queue != nil || x.kind() != Refused {
		return
	}
	if e.snoozed.refused.CompareAndSwap(false, true) {
		e.emit(Event{Kind: SnoozeRefused, At: x.At, Tier: x.tier, Record: x.Record, Outcome: x.outcome, Err: x.reason})
	}
	x.Until = time.Time{}
	x.reason = nil
	e.snooze(x.tier, x.Record.Key.Hash(), x.snoozedUntil)
}

// keepsSnooze reports whether the store keeps a snooze of the record in its row.
func (e *Engine) keepsSnooze(r *Record) bool {
	s, ok := e.Store.(Snoozer)
	return ok && s.KeepsSnooze(r)
}

// SnoozedUntil returns until when this process does not try the record with the key, as it
// remembers itself; zero if it remembers nothing. What rows keep is not known here.
func (e *Engine) SnoozedUntil(k Key) time.Time {
	e.init()
	return e.snoozed.at(k.Hash(), e.Now())
}

// Snoozes returns how many records this process does not try yet, as it remembers itself, at most
// 100,000.
func (e *Engine) Snoozes() (n int) {
	e.init()
	now := e.Now()
	for _, until := range e.snoozed.until.Values() {
		if until.After(now) {
			n++
		}
	}
	return n
}
