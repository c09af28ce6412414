package storetest

import (
	"slices"
	"time"

	"backlog/backlog"
)

// Rows before their attempt.

func failedBefore(r *Row) { r.Memory.AttemptNo, r.Memory.FailingSince = 2, longAgo }

func lastTry(r *Row) { r.Memory.AttemptNo, r.Memory.FailingSince = 3, longAgo }

func withText(r *Row) { r.Memory.Reason = "of last time" }

// What other programs do to them.

// saves returns a save of the application.
func saves(f func(*Row)) change {
	return func(x *fixture, k backlog.Key) {
		row, ok, err := x.h.Row(k)
		x.harness(err, "read record %v", k)
		if ok {
			f(&row)
			x.harness(x.h.Update(row), "change record %v", k)
		}
	}
}

var (
	savesStart         = saves(func(r *Row) { r.Memory.Next = atSave })
	savesFuture        = saves(func(r *Row) { r.Memory.Next = atFuture })
	savesNoStart       = saves(func(r *Row) { r.Memory.Next = time.Time{} })
	savesStartAnew     = saves(func(r *Row) { r.Memory.Next, r.Memory.AttemptNo = atSave, 0 })
	savesAttempts      = saves(func(r *Row) { r.Memory.AttemptNo = 0 })
	saysText           = saves(func(r *Row) { r.Memory.Reason = "half of it is done" })
	savesStartWithText = saves(func(r *Row) { r.Memory.Next, r.Memory.Reason = atSave, "half of it is done" })
	savesAll           = saves(anew)
	savesStatus        = saves(func(r *Row) { r.Status = Dead })
	emptiesUID         = saves(func(r *Row) { r.Memory.UID = "" })
	savesNote          = saves(func(r *Row) { r.Columns["note"] = "saved" })
	disables           = saves(func(r *Row) { r.Memory.Disabled, r.Memory.Reason = true, "stop it" })

	disablesAndSavesStart   = saves(func(r *Row) { r.Memory.Disabled, r.Memory.Reason, r.Memory.Next = true, "stop it", atSave })
	emptiesUIDAndSavesStart = saves(func(r *Row) { r.Memory.UID, r.Memory.Next = "", atSave })
	emptiesDeadline         = saves(func(r *Row) { r.Memory.Deadline, r.Memory.Next = time.Time{}, atSave })
)

// anew changes a row as the documentation says that a save does.
func anew(r *Row) { r.Memory = backlog.Memory{Next: atSave, Started: r.Memory.Started} }

// beginsAnother is another daemon, which starts an attempt that ends later.
var beginsAnother = saves(func(r *Row) {
	r.Memory.UID, r.Memory.Deadline, r.Memory.Next = uid(9999), atNext, atNext
	r.Memory.AttemptNo++
})

// beginsAtOnce is beginsAnother with the next start that was read.
var beginsAtOnce = saves(func(r *Row) { r.Memory.UID, r.Memory.Deadline = uid(9999), atNext })

func deletes(x *fixture, k backlog.Key) { x.harness(x.h.Delete(k), "delete record %v", k) }

// retries is `backlog retry`.
func retries(x *fixture, k backlog.Key) {
	if o, ok := x.h.(Operator); ok {
		x.harness(o.Retry(k, atSave), "retry record %v", k)
		return
	}
	saves(func(r *Row) {
		r.Status = Fresh
		r.InRetry = false
		if x.table.Refresh {
			anew(r)
			return
		}
		r.Memory = backlog.Memory{LastFailure: r.Memory.LastFailure}
	})(x, k)
}

// refreshPromises are the promises of the policy refresh, on a table with all of its columns.
var refreshPromises = []promise{
	// Without a change.
	{says: "success: refresh_at is the next occurrence, attempt_no 0", end: succeeded,
		want: standing{status: Fresh, tries: 1, next: atNext, due: atNext, said: written}},
	{says: "a success empties failing_since", was: failedBefore, end: succeeded,
		want: standing{status: Fresh, tries: 1, next: atNext, due: atNext, said: written}},
	{says: "a success empties disabled_reason", was: withText, end: succeeded,
		want: standing{status: Fresh, tries: 1, next: atNext, due: atNext, said: written}},
	{says: "a schedule that has ended leaves refresh_at NULL after a success, and the row gets the success status", was: lastTry, end: succeeded,
		want: standing{status: Success, tries: 1, said: written}},
	{says: "failure: refresh_at is after the interval, attempt_no stays, failing_since is set", end: failed,
		want: standing{status: Failed, tries: 1, next: atRetry, starts: 1, failing: atStart, due: atRetry, said: written}},
	{says: "failure: failing_since is set, unless it is", was: failedBefore, end: failed,
		want: standing{status: Failed, tries: 1, next: atRetry, starts: 3, failing: longAgo, due: atRetry, said: written}},
	{says: "a failure leaves disabled_reason as it is", was: withText, end: failed,
		want: standing{status: Failed, tries: 1, next: atRetry, starts: 1, failing: atStart, reason: "of last time", due: atRetry, said: written}},
	{says: "failure after the last interval: refresh_at NULL, disabled, with the reason; the dead status; on_dead is called", was: lastTry, end: failed,
		want: standing{status: Dead, tries: 1, starts: 4, disabled: true, reason: failureText, failing: longAgo, said: written, onDead: true, died: true}},
	{says: "a handler rejects: refresh_at NULL, disabled; its error is the reason", end: rejected,
		want: standing{status: Dead, tries: 1, starts: 1, disabled: true, reason: failureText, failing: atStart, said: written, onDead: true, died: true}},
	{says: "a handler skips: as before the start, it was no attempt", was: failedBefore, end: skipped,
		want: standing{status: Other, next: now.Add(-time.Minute), starts: 2, failing: longAgo, due: atStart, said: written}},

	// A text that a worker writes during its attempt.
	{says: "a text of a worker: a success empties it", change: saysText, end: succeeded,
		want: standing{status: Fresh, tries: 1, next: atNext, due: atNext, said: written}},
	{says: "a text of a worker: a failure leaves it", change: saysText, end: failed,
		want: standing{status: Failed, tries: 1, next: atRetry, starts: 1, reason: "half of it is done", failing: atStart, due: atRetry, said: written}},
	{says: "a text of a worker: the last failure has its own", was: lastTry, change: saysText, end: failed,
		want: standing{status: Dead, tries: 1, starts: 4, disabled: true, reason: failureText, failing: longAgo, said: written, onDead: true, died: true}},
	{says: "a text of a worker: the success of a saved row leaves it", change: savesStartWithText, end: succeeded,
		want: standing{status: Fresh, tries: 1, next: atSave, starts: 1, reason: "half of it is done", due: atSave, said: written}},

	// Handing over.
	{says: "a handler can hand the row over: it runs until its deadline", end: handedOver,
		want: standing{status: Failed, tries: 1, next: atRetry, starts: 1, failing: atDeadline, due: atRetry, said: written}},
	{says: "who answers later names the token: a success", was: failedBefore, end: laterSuccess,
		want: standing{status: Fresh, tries: 1, next: atNext, due: atNext, said: written}},
	{says: "who answers later names the token: a failure", end: laterFailure,
		want: standing{status: Failed, tries: 1, next: atRetry, starts: 1, failing: atAnswer, due: atRetry, said: written}},
	{says: "who answers later names the token: the last failure", was: lastTry, end: laterFailure,
		want: standing{status: Dead, tries: 1, starts: 4, disabled: true, reason: failureText, failing: longAgo, said: written, onDead: true, died: true}},
	{says: "who answers later names the token: a reject", end: laterReject,
		want: standing{status: Dead, tries: 1, starts: 1, disabled: true, reason: failureText, failing: atAnswer, said: written, onDead: true, died: true}},
	{says: "status writes disabled_reason while an attempt runs, which fails at its deadline", end: laterText,
		want: standing{status: Failed, tries: 1, next: atRetry, starts: 1, reason: failureText, failing: atDeadline, due: atRetry, said: written}},
	{says: "an attempt that is past its deadline has failed as timed out", was: failedBefore, end: timedOut,
		want: standing{status: Failed, tries: 1, next: atRetry, starts: 3, failing: longAgo, due: atRetry, said: written}},
	{says: "an attempt that is past its deadline has failed, the last one too", was: lastTry, end: timedOut,
		want: standing{status: Dead, tries: 1, starts: 4, disabled: true, reason: "timed out", failing: longAgo, said: written, onDead: true, died: true}},

	// A save of a new refresh_at before the deadline: the start comes after the attempt.
	{says: "saved refresh_at, success: the start comes after the attempt", change: savesStart, end: succeeded,
		want: standing{status: Fresh, tries: 1, next: atSave, starts: 1, due: atSave, said: written}},
	{says: "saved refresh_at, success: it empties failing_since as any does", was: failedBefore, change: savesStart, end: succeeded,
		want: standing{status: Fresh, tries: 1, next: atSave, starts: 3, due: atSave, said: written}},
	{says: "saved refresh_at, success after the last occurrence: the start comes after the attempt", was: lastTry, change: savesStart, end: succeeded,
		want: standing{status: Fresh, tries: 1, next: atSave, starts: 4, due: atSave, said: written}},
	{says: "saved refresh_at, failure: the start comes after the attempt", was: failedBefore, change: savesStart, end: failed,
		want: standing{status: Failed, tries: 1, next: atSave, starts: 3, failing: longAgo, due: atSave, said: written}},
	{says: "saved refresh_at, last failure: the start comes after the attempt, the row is not disabled", was: lastTry, change: savesStart, end: failed,
		want: standing{status: Failed, tries: 1, next: atSave, starts: 4, failing: longAgo, due: atSave, said: written}},
	{says: "saved refresh_at, reject: the start comes after the attempt, the row is not disabled", change: savesStart, end: rejected,
		want: standing{status: Failed, tries: 1, next: atSave, starts: 1, due: atSave, said: written}},
	{says: "saved refresh_at, skip: the start comes after the attempt", was: failedBefore, change: savesStart, end: skipped,
		want: standing{status: Other, next: atSave, starts: 3, failing: longAgo, due: atSave, said: written}},
	{says: "saved refresh_at, success of later: the start comes after the attempt", was: failedBefore, change: savesStart, end: laterSuccess,
		want: standing{status: Fresh, tries: 1, next: atSave, starts: 3, due: atSave, said: written}},
	{says: "saved refresh_at, failure of later: the start comes after the attempt", was: failedBefore, change: savesStart, end: laterFailure,
		want: standing{status: Failed, tries: 1, next: atSave, starts: 3, failing: longAgo, due: atSave, said: written}},
	{says: "saved refresh_at, reject of later: the start comes after the attempt, the row is not disabled", change: savesStart, end: laterReject,
		want: standing{status: Failed, tries: 1, next: atSave, starts: 1, due: atSave, said: written}},
	{says: "saved refresh_at, deadline: the start comes after the attempt", was: failedBefore, change: savesStart, end: timedOut,
		want: standing{status: Failed, tries: 1, next: atSave, starts: 3, failing: longAgo, due: atSave, said: written}},
	{says: "saved refresh_at, last deadline: the start comes after the attempt, the row is not disabled", was: lastTry, change: savesStart, end: timedOut,
		want: standing{status: Failed, tries: 1, next: atSave, starts: 4, failing: longAgo, due: atSave, said: written}},
	{says: "saved refresh_at and attempt_no: both stay", was: failedBefore, change: savesStartAnew, end: failed,
		want: standing{status: Failed, tries: 1, next: atSave, failing: longAgo, due: atSave, said: written}},
	{says: "saved refresh_at behind the deadline: the outcome plans the start", change: savesFuture, end: succeeded,
		want: standing{status: Fresh, tries: 1, next: atNext, due: atNext, said: written}},
	{says: "saved attempt_no alone: a failure leaves it as it is", was: failedBefore, change: savesAttempts, end: failed,
		want: standing{status: Failed, tries: 1, next: atRetry, failing: longAgo, due: atRetry, said: written}},
	{says: "a save between the look at an attempt and its success is kept", was: failedBefore, when: beforeItsEnd, change: savesStart, end: laterSuccess,
		want: standing{status: Fresh, tries: 1, next: atSave, starts: 3, due: atSave, said: written}},
	{says: "a save between the look at an attempt and its failure by the deadline is kept", was: failedBefore, when: beforeItsEnd, change: savesStart, end: timedOut,
		want: standing{status: Failed, tries: 1, next: atSave, starts: 3, failing: longAgo, due: atSave, said: written}},
	{says: "a save between the look at an attempt and its reject is kept, the row is not disabled, though on_dead was called", when: beforeItsEnd, change: savesStart, end: laterReject,
		want: standing{status: Failed, tries: 1, next: atSave, starts: 1, due: atSave, said: written, onDead: true, died: true}},
	{says: "a text for the customer changes nothing but disabled_reason", when: beforeItsEnd, change: savesStart, end: laterText,
		want: standing{status: Failed, tries: 1, next: atSave, starts: 1, reason: failureText, due: atSave, said: written}},

	// A save of another column.
	{says: "a column that backlog does not map is the application's", change: savesNote, end: succeeded,
		want: standing{status: Fresh, tries: 1, note: "saved", next: atNext, due: atNext, said: written}},
	{says: "a status is for people: whatever was saved there, the outcome is written", change: savesStatus, end: succeeded,
		want: standing{status: Fresh, tries: 1, next: atNext, due: atNext, said: written}},

	// An emptied UID.
	{says: "emptied uid: the attempt is cancelled, the row starts at its refresh_at, its success changes nothing", change: emptiesUIDAndSavesStart, end: succeeded,
		want: standing{status: Other, next: atSave, starts: 1, deadline: atDeadline, due: atSave, ended: true, said: conflict}},
	{says: "emptied uid alone: the row starts at its refresh_at", change: emptiesUID, end: succeeded,
		want: standing{status: Other, next: atDeadline, starts: 1, deadline: atDeadline, due: atDeadline, ended: true, said: conflict}},
	{says: "emptied uid: the failure changes nothing", was: failedBefore, change: emptiesUIDAndSavesStart, end: failed,
		want: standing{status: Other, next: atSave, starts: 3, deadline: atDeadline, failing: longAgo, due: atSave, ended: true, said: conflict}},
	{says: "emptied uid: the last failure changes nothing, on_dead is not called", was: lastTry, change: emptiesUIDAndSavesStart, end: failed,
		want: standing{status: Other, next: atSave, starts: 4, deadline: atDeadline, failing: longAgo, due: atSave, ended: true, said: conflict}},
	{says: "emptied uid: the reject changes nothing, on_dead is not called", change: emptiesUIDAndSavesStart, end: rejected,
		want: standing{status: Other, next: atSave, starts: 1, deadline: atDeadline, due: atSave, ended: true, said: conflict}},
	{says: "emptied uid: the skip changes nothing", was: failedBefore, change: emptiesUIDAndSavesStart, end: skipped,
		want: standing{status: Other, next: atSave, starts: 3, deadline: atDeadline, failing: longAgo, due: atSave, ended: true, said: conflict}},
	{says: "emptied uid: no running attempt has the token any more", change: emptiesUIDAndSavesStart, end: laterSuccess,
		want: standing{status: Other, next: atSave, starts: 1, deadline: atDeadline, due: atSave, ended: true, said: conflict}},
	{says: "emptied uid: a deadline that it leaves there means nothing", change: emptiesUIDAndSavesStart, end: timedOut,
		want: standing{status: Other, next: atSave, starts: 1, deadline: atDeadline, due: atSave, ended: true}},
	{says: "emptied uid between the look at an attempt and its success: it changes nothing", when: beforeItsEnd, change: emptiesUIDAndSavesStart, end: laterSuccess,
		want: standing{status: Other, next: atSave, starts: 1, deadline: atDeadline, due: atSave, said: conflict}},
	{says: "emptied uid between the look at an attempt and its deadline: nothing has failed", when: beforeItsEnd, change: emptiesUIDAndSavesStart, end: timedOut,
		want: standing{status: Other, next: atSave, starts: 1, deadline: atDeadline, due: atSave, said: conflict}},

	// An emptied deadline: an attempt runs while there are a deadline and a UID.
	{says: "emptied deadline: no attempt runs, the row starts at its refresh_at, its success changes nothing", change: emptiesDeadline, end: succeeded,
		want: standing{status: Other, next: atSave, starts: 1, runs: itsOwn, due: atSave, ended: true, said: conflict}},
	{says: "emptied deadline: no running attempt has the token any more", change: emptiesDeadline, end: laterSuccess,
		want: standing{status: Other, next: atSave, starts: 1, runs: itsOwn, due: atSave, ended: true, said: conflict}},
	{says: "emptied deadline: the attempt never times out", change: emptiesDeadline, end: timedOut,
		want: standing{status: Other, next: atSave, starts: 1, runs: itsOwn, due: atSave, ended: true}},

	// A row that is saved as in the last line of the documentation's table, or by `backlog retry`.
	{says: "saved: all is emptied, the running attempt is cancelled, its success changes nothing", was: failedBefore, change: savesAll, end: succeeded,
		want: standing{status: Other, next: atSave, due: atSave, ended: true, said: conflict}},
	{says: "saved: the last failure changes nothing, on_dead is not called", was: lastTry, change: savesAll, end: failed,
		want: standing{status: Other, next: atSave, due: atSave, ended: true, said: conflict}},
	{says: "saved: no running attempt has the token any more", change: savesAll, end: laterReject,
		want: standing{status: Other, next: atSave, due: atSave, ended: true, said: conflict}},
	{says: "saved: the deadline is emptied, nothing has failed", change: savesAll, end: timedOut,
		want: standing{status: Other, next: atSave, due: atSave, ended: true}},
	{says: "backlog retry: a row starts anew, whatever its state; a success changes nothing", was: failedBefore, change: retries, end: succeeded,
		want: standing{status: Fresh, next: atSave, due: atSave, ended: true, said: conflict}},
	{says: "backlog retry: the last failure changes nothing, on_dead is not called", was: lastTry, change: retries, end: failed,
		want: standing{status: Fresh, next: atSave, due: atSave, ended: true, said: conflict}},
	{says: "backlog retry: no running attempt has the token any more", change: retries, end: laterFailure,
		want: standing{status: Fresh, next: atSave, due: atSave, ended: true, said: conflict}},
	{says: "backlog retry: nothing is past its deadline", change: retries, end: timedOut,
		want: standing{status: Fresh, next: atSave, due: atSave, ended: true}},

	// A row that is disabled.
	{says: "disabled: the success is written, no start until the row is saved again", change: disables, end: succeeded,
		want: standing{status: Fresh, tries: 1, next: atNext, disabled: true, reason: "stop it", said: written}},
	{says: "disabled: the success leaves its reason, whatever was there before", was: withText, change: disables, end: succeeded,
		want: standing{status: Fresh, tries: 1, next: atNext, disabled: true, reason: "stop it", said: written}},
	{says: "disabled: the failure is written, no start until the row is saved again", was: failedBefore, change: disables, end: failed,
		want: standing{status: Failed, tries: 1, next: atRetry, starts: 3, disabled: true, reason: "stop it", failing: longAgo, said: written}},
	{says: "disabled: the last failure leaves its reason", was: lastTry, change: disables, end: failed,
		want: standing{status: Dead, tries: 1, starts: 4, disabled: true, reason: "stop it", failing: longAgo, said: written, onDead: true, died: true}},
	{says: "disabled: the skip takes the start back, no start until the row is saved again", was: failedBefore, change: disables, end: skipped,
		want: standing{status: Other, next: now.Add(-time.Minute), starts: 2, disabled: true, reason: "stop it", failing: longAgo, said: written}},
	{says: "disabled: the success of later is written, no start until the row is saved again", change: disables, end: laterSuccess,
		want: standing{status: Fresh, tries: 1, next: atNext, disabled: true, reason: "stop it", said: written}},
	{says: "disabled between the look at an attempt and its success: it stays so", when: beforeItsEnd, change: disables, end: laterSuccess,
		want: standing{status: Fresh, tries: 1, next: atNext, disabled: true, reason: "stop it", said: written}},
	{says: "disabled: the attempt fails at its deadline, no start until the row is saved again", was: failedBefore, change: disables, end: timedOut,
		want: standing{status: Failed, tries: 1, next: atRetry, starts: 3, disabled: true, reason: "stop it", failing: longAgo, said: written}},
	{says: "disabled, with a saved refresh_at: the success is written, no start until the row is saved again", change: disablesAndSavesStart, end: succeeded,
		want: standing{status: Fresh, tries: 1, next: atSave, starts: 1, disabled: true, reason: "stop it", said: written}},

	// Another attempt, and no row at all.
	{says: "another attempt runs: the success comes too late and changes nothing", change: beginsAnother, end: succeeded,
		want: standing{status: Other, next: atNext, starts: 2, runs: another, deadline: atNext, ended: true, said: conflict}},
	{says: "another attempt runs: the last failure comes too late, on_dead is not called", was: lastTry, change: beginsAnother, end: failed,
		want: standing{status: Other, next: atNext, starts: 5, runs: another, deadline: atNext, failing: longAgo, ended: true, said: conflict}},
	{says: "another attempt runs: an answer that comes too late changes nothing", change: beginsAnother, end: laterSuccess,
		want: standing{status: Other, next: atNext, starts: 2, runs: another, deadline: atNext, ended: true, said: conflict}},
	{says: "another attempt runs: it has a deadline of its own", change: beginsAnother, end: timedOut,
		want: standing{status: Other, next: atNext, starts: 2, runs: another, deadline: atNext, ended: true}},
	{says: "deleted: the success changes nothing", change: deletes, end: succeeded,
		want: standing{gone: true, ended: true, said: conflict}},
	{says: "deleted: the last failure changes nothing, on_dead is not called", was: lastTry, change: deletes, end: failed,
		want: standing{gone: true, ended: true, said: conflict}},
	{says: "deleted: no running attempt has the token any more", change: deletes, end: laterReject,
		want: standing{gone: true, ended: true, said: conflict}},
	{says: "deleted: nothing is past its deadline", change: deletes, end: timedOut,
		want: standing{gone: true, ended: true}},

	// A start is written only if the row has the UID and the time that were read, and is not disabled.
	{says: "a row is started once: another attempt has begun", when: beforeStart, change: beginsAnother, end: succeeded,
		want: standing{status: Other, next: atNext, starts: 1, runs: another, deadline: atNext, said: notBegun}},
	{says: "a row is started once: another attempt has begun, and refresh_at was saved as it was", when: beforeStart, change: beginsAtOnce, end: succeeded,
		want: standing{status: Other, next: now.Add(-time.Minute), runs: another, deadline: atNext, said: notBegun}},
	{says: "a row is started at its refresh_at: another one was saved", when: beforeStart, change: savesStart, end: succeeded,
		want: standing{status: Other, next: atSave, due: atSave, said: notBegun}},
	{says: "refresh_at NULL: none is planned", when: beforeStart, change: savesNoStart, end: succeeded,
		want: standing{status: Other, said: notBegun}},
	{says: "disabled: no start until the row is saved again", when: beforeStart, change: disables, end: succeeded,
		want: standing{status: Other, next: now.Add(-time.Minute), disabled: true, reason: "stop it", said: notBegun}},
	{says: "a deleted row is not started", when: beforeStart, change: deletes, end: succeeded,
		want: standing{gone: true, said: notBegun}},
	{says: "another column that was saved keeps no row from its start", when: beforeStart, change: savesNote, end: succeeded,
		want: standing{status: Fresh, tries: 1, note: "saved", next: atNext, due: atNext, said: written}},
}

// stalled is a row whose process has died during an attempt.
func stalled(r *Row) { r.Memory = backlog.Memory{Next: atDeadline, AttemptNo: 1, Deadline: atStart} }

// beginsUnnamed is beginsAnother without a UID.
var beginsUnnamed = saves(func(r *Row) {
	r.Memory.Deadline, r.Memory.Next = atNext, atNext
	r.Memory.AttemptNo++
})

// noUIDPromises are the promises of the policy refresh on a table without a column for UIDs: the
// next start and the number identify an attempt.
var noUIDPromises = []promise{
	{says: "success: refresh_at is the next occurrence, attempt_no 0", was: failedBefore, end: succeeded,
		want: standing{status: Fresh, tries: 1, next: atNext, due: atNext, said: written}},
	{says: "failure after the last interval: disabled; on_dead is called", was: lastTry, end: failed,
		want: standing{status: Dead, tries: 1, starts: 4, disabled: true, reason: failureText, failing: longAgo, said: written, onDead: true, died: true}},
	{says: "no hand-over: it is a failure", end: handedOver,
		want: standing{status: Failed, tries: 1, next: atRetry, starts: 1, failing: atStart, due: atRetry, said: written}},
	{says: "an attempt that is past its deadline has failed as timed out, even if no process ran then", was: stalled,
		want: standing{status: Failed, tries: 1, next: atRetry, starts: 1, failing: atStart, due: atRetry, said: written}},
	{says: "disabled: the success is written, no start until the row is saved again", change: disables, end: succeeded,
		want: standing{status: Fresh, tries: 1, next: atNext, disabled: true, reason: "stop it", said: written}},
	{says: "saved refresh_at: the row has lost the attempt, its deadline comes before the start", change: savesStart, end: succeeded,
		want: standing{status: Failed, tries: 1, next: atSave, starts: 1, due: atSave, said: written}},
	{says: "saved refresh_at, last failure: on_dead is not called", was: lastTry, change: savesStart, end: failed,
		want: standing{status: Failed, tries: 1, next: atSave, starts: 4, failing: longAgo, due: atSave, said: written}},
	{says: "saved attempt_no: the row has lost the attempt, which fails at its deadline", change: savesAttempts, end: succeeded,
		want: standing{status: Failed, tries: 1, next: atRetry, failing: atDeadline, due: atRetry, said: written}},
	{says: "emptied deadline: no attempt runs, the row starts at its refresh_at, its success changes nothing", change: emptiesDeadline, end: succeeded,
		want: standing{status: Other, next: atSave, starts: 1, due: atSave, said: conflict}},
	{says: "saved: all is emptied, the success changes nothing", was: failedBefore, change: savesAll, end: succeeded,
		want: standing{status: Other, next: atSave, due: atSave, said: conflict}},
	{says: "another attempt runs: the success comes too late and changes nothing", change: beginsUnnamed, end: succeeded,
		want: standing{status: Other, next: atNext, starts: 2, deadline: atNext, said: conflict}},
	{says: "a row is started once: another attempt has begun", when: beforeStart, change: beginsUnnamed, end: succeeded,
		want: standing{status: Other, next: atNext, starts: 1, deadline: atNext, said: notBegun}},
}

// fewPromises are the promises of the policy refresh on a table that has no column for deadlines
// either.
var fewPromises = []promise{
	{says: "success: refresh_at is the next occurrence, attempt_no 0", was: failedBefore, end: succeeded,
		want: standing{status: Fresh, tries: 1, next: atNext, due: atNext, said: written}},
	{says: "a stalled attempt is no failure; the row starts again at refresh_at", was: stalled,
		want: standing{status: Other, next: atDeadline, starts: 1, due: atDeadline}},
	{says: "saved refresh_at: the row has lost the attempt, the success changes nothing", change: savesStart, end: succeeded,
		want: standing{status: Other, next: atSave, starts: 1, due: atSave, said: conflict}},
	{says: "saved refresh_at: the last failure changes nothing, on_dead is not called", was: lastTry, change: savesStart, end: failed,
		want: standing{status: Other, next: atSave, starts: 4, failing: longAgo, due: atSave, said: conflict}},
	{says: "saved attempt_no: the row has lost the attempt, the failure changes nothing", change: savesAttempts, end: failed,
		want: standing{status: Other, next: atDeadline, due: atDeadline, said: conflict}},
	{says: "a row is started once: another attempt has begun", when: beforeStart, change: beginsUnnamed, end: succeeded,
		want: standing{status: Other, next: atNext, starts: 1, due: atNext, said: notBegun}},
}

// uidPromises are the promises of the policy refresh on a table with a column for UIDs, but none
// for deadlines.
var uidPromises = []promise{
	{says: "success: refresh_at is the next occurrence, attempt_no 0", was: failedBefore, end: succeeded,
		want: standing{status: Fresh, tries: 1, next: atNext, due: atNext, said: written}},
	{says: "a row is started once: another attempt has begun, and refresh_at was saved as it was", when: beforeStart, change: beginsAtOnce, end: succeeded,
		want: standing{status: Other, next: now.Add(-time.Minute), runs: another, due: atStart, said: notBegun}},
	{says: "emptied uid: the attempt is cancelled, its success changes nothing", change: emptiesUIDAndSavesStart, end: succeeded,
		want: standing{status: Other, next: atSave, starts: 1, due: atSave, ended: true, said: conflict}},
	{says: "who answers later names the token: a failure", end: laterFailure,
		want: standing{status: Failed, tries: 1, next: atRetry, starts: 1, failing: atAnswer, due: atRetry, said: written}},
}

// Under the policies without deadlines.

// triedOnce is a row that has failed, under a counted policy and under a planned one.
func triedOnce(r *Row) { triedBefore(r, 1) }

// outOfTries is a row whose next failure is the last.
func outOfTries(r *Row) { triedBefore(r, 3) }

func triedBefore(r *Row, n int) {
	r.Status = Failed
	r.Memory, r.InRetry = backlog.Memory{Failures: n, LastFailure: longAgo, Next: longAgo.Add(time.Minute)}, true
}

// keptOnce and keptOut are the same rows if an error leaves the status.
func keptOnce(r *Row) { triedOnce(r); r.Status = Fresh }
func keptOut(r *Row)  { outOfTries(r); r.Status = Fresh }

// setsStatus is the application, which has done the work itself or holds the row back.
func setsStatus(status string) change { return saves(func(r *Row) { r.Status = status }) }

// failsOnceMore is another daemon, whose attempt has failed.
var failsOnceMore = saves(func(r *Row) { r.Status = Failed; r.Memory.Failures++ })

// countsOneMore is the same if an error leaves the status.
var countsOneMore = saves(func(r *Row) { r.Memory.Failures++ })

// discards is `backlog discard`.
func discards(x *fixture, k backlog.Key) {
	if o, ok := x.h.(Operator); ok {
		x.harness(o.Discard(k, atStart), "discard record %v", k)
		return
	}
	setsStatus(Dead)(x, k)
}

// soonAgain is when a failed row is due again.
var soonAgain = atStart.Add(time.Minute)

// statusPromises are the promises of every policy that goes by the status: the change of another
// program wins.
var statusPromises = []promise{
	{says: "a success is written", end: succeeded,
		want: standing{status: Success, tries: 1, said: written}},
	{says: "a skipped row stays as it was", was: func(r *Row) { r.Status = Failed }, end: skipped,
		want: standing{status: Failed, due: atStart, said: written}},
	{says: "another column that was saved keeps no outcome from being written", change: savesNote, end: succeeded,
		want: standing{status: Success, tries: 1, note: "saved", said: written}},
	{says: "another program has done it: a success changes nothing", change: setsStatus(Success), end: succeeded,
		want: standing{status: Success, said: conflict}},
	{says: "another program has done it: a failure changes nothing", change: setsStatus(Success), end: failed,
		want: standing{status: Success, said: conflict}},
	{says: "another program has done it: a skip is no conflict", change: setsStatus(Success), end: skipped,
		want: standing{status: Success, said: written}},
	{says: "another program holds it back: a success changes nothing", change: setsStatus(Other), end: succeeded,
		want: standing{status: Other, said: conflict}},
	{says: "another program has emptied the status: a failure changes nothing", change: setsStatus(Null), end: failed,
		want: standing{said: conflict}},
	{says: "backlog discard: a success changes nothing", change: discards, end: succeeded,
		want: standing{status: Dead, said: conflict}},
	{says: "backlog discard: a reject changes nothing, on_dead is not called", change: discards, end: rejected,
		want: standing{status: Dead, said: conflict}},
	{says: "deleted: a success changes nothing", change: deletes, end: succeeded,
		want: standing{gone: true, said: conflict}},
	{says: "deleted: a reject changes nothing, on_dead is not called", change: deletes, end: rejected,
		want: standing{gone: true, said: conflict}},
}

// plainPromises are the promises if the row has only its status.
var plainPromises = slices.Concat(statusPromises, []promise{
	{says: "a failure has the error status, and is due again", end: failed,
		want: standing{status: Failed, tries: 1, due: atStart, said: written}},
	{says: "a handler rejects: the dead status, on_dead is called", end: rejected,
		want: standing{status: Dead, tries: 1, said: written, onDead: true, died: true}},
})

// countedPromises are the promises of policies that keep the number of failures in the row.
var countedPromises = slices.Concat(statusPromises, []promise{
	{says: "a handler rejects: the dead status, on_dead is called", end: rejected,
		want: standing{status: Dead, tries: 1, failures: 1, said: written, onDead: true, died: true}},
	{says: "a failure is counted", was: triedOnce, end: failed,
		want: standing{status: Failed, tries: 1, failures: 2, due: soonAgain, said: written}},
	{says: "out of retries: the dead status, on_dead is called", was: outOfTries, end: failed,
		want: standing{status: Dead, tries: 1, failures: 4, said: written, onDead: true, died: true}},
	{says: "a skipped row stays as it was", was: triedOnce, end: skipped,
		want: standing{status: Failed, failures: 1, due: atStart, said: written}},
	{says: "another column that was saved keeps no failure from being counted", was: triedOnce, change: savesNote, end: failed,
		want: standing{status: Failed, tries: 1, failures: 2, note: "saved", due: soonAgain, said: written}},
	{says: "the count has changed: a failure is not counted", was: triedOnce, change: failsOnceMore, end: failed,
		want: standing{status: Failed, failures: 2, due: atStart, said: conflict}},
	{says: "the count has changed: the last failure is none, on_dead is not called", was: outOfTries, change: countsOneMore, end: failed,
		want: standing{status: Failed, failures: 4, said: conflict}},
	{says: "the count has changed: a reject is not written, on_dead is not called", was: triedOnce, change: failsOnceMore, end: rejected,
		want: standing{status: Failed, failures: 2, due: atStart, said: conflict}},
	{says: "the count has changed: a success is one all the same", was: triedOnce, change: failsOnceMore, end: succeeded,
		want: standing{status: Success, tries: 1, failures: 2, said: written}},
	{says: "a fresh row has failed: a success changes nothing", change: failsOnceMore, end: succeeded,
		want: standing{status: Failed, failures: 1, due: atStart, said: conflict}},
	{says: "a fresh row has failed: a failure is not counted", change: failsOnceMore, end: failed,
		want: standing{status: Failed, failures: 1, due: atStart, said: conflict}},
	{says: "another program has done it: a failure is not counted", was: triedOnce, change: setsStatus(Success), end: failed,
		want: standing{status: Success, failures: 1, said: conflict}},
	{says: "another program has done it: the last failure is none, on_dead is not called", was: outOfTries, change: setsStatus(Success), end: failed,
		want: standing{status: Success, failures: 3, said: conflict}},
	{says: "backlog retry: the row is fresh, a success changes nothing", was: triedOnce, change: retries, end: succeeded,
		want: standing{status: Fresh, due: atStart, said: conflict}},
	{says: "backlog retry: the last failure is none, on_dead is not called", was: outOfTries, change: retries, end: failed,
		want: standing{status: Fresh, due: atStart, said: conflict}},
	{says: "backlog discard: a success changes nothing", was: triedOnce, change: discards, end: succeeded,
		want: standing{status: Dead, failures: 1, said: conflict}},
	{says: "backlog discard: the last failure is none, on_dead is not called", was: outOfTries, change: discards, end: failed,
		want: standing{status: Dead, failures: 3, said: conflict}},
	{says: "deleted: the last failure is none, on_dead is not called", was: outOfTries, change: deletes, end: failed,
		want: standing{gone: true, said: conflict}},
})

// keptPromises are the promises if an error leaves the status: only the count shows that a row has failed.
var keptPromises = []promise{
	{says: "a failure is counted", was: keptOnce, end: failed,
		want: standing{status: Fresh, tries: 1, failures: 2, due: soonAgain, said: written}},
	{says: "out of retries: the dead status, on_dead is called", was: keptOut, end: failed,
		want: standing{status: Dead, tries: 1, failures: 4, said: written, onDead: true, died: true}},
	{says: "the count has changed: a failure is not counted", was: keptOnce, change: countsOneMore, end: failed,
		want: standing{status: Fresh, failures: 2, due: atStart, said: conflict}},
	{says: "the count has changed: the last failure is none, on_dead is not called", was: keptOut, change: countsOneMore, end: failed,
		want: standing{status: Fresh, failures: 4, said: conflict}},
	{says: "the count has changed: a success is one all the same", was: keptOnce, change: countsOneMore, end: succeeded,
		want: standing{status: Success, tries: 1, failures: 2, said: written}},
	{says: "a fresh row has failed: a success changes nothing", change: countsOneMore, end: succeeded,
		want: standing{status: Fresh, failures: 1, due: atStart, said: conflict}},
	{says: "a fresh row has failed: a failure is not counted", change: countsOneMore, end: failed,
		want: standing{status: Fresh, failures: 1, due: atStart, said: conflict}},
	{says: "backlog retry: the row is fresh, a success changes nothing", was: keptOnce, change: retries, end: succeeded,
		want: standing{status: Fresh, due: atStart, said: conflict}},
	{says: "backlog retry: the last failure is none, on_dead is not called", was: keptOut, change: retries, end: failed,
		want: standing{status: Fresh, due: atStart, said: conflict}},
}
