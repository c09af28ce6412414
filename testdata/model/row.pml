/*
One row of a table, while commits lose their answer and another program writes. Is a success ever
written without a handler's, another program's change overwritten, or a failure counted wrongly?

A process that has the run lock makes one pass after the other: it reads the row, calls the handler,
and writes the outcome until the database has answered. The policy counts failures in the row.
Comments name the Go functions.

What goes wrong, at most FAULTS times: a write is not made; the answer to a commit is lost, and the
write is made or not; there is no time left to write; a stop ends the handler; the process is
killed. Another program changes the row at most OTHERS times, between any two steps.

Left out: other rows (a group is written in one transaction), the dead status, and policies with
deadlines, which guard a row by the UID of its attempt.

Documented exceptions, which are no error here:
- At least once: if a success was not written, the handler is called again.
- A row that another program has changed, and changed back to what was read, is as it was read.
- A success compares the count only if an earlier write of it may have been made.
*/

#define NEW 0
#define FAILED 1
#define SUCCESS 2

/* Outcomes, beside FAILED and SUCCESS. */
#define INTERRUPTED 3

#ifndef FAULTS
#define FAULTS 3
#endif
#ifndef OTHERS
#define OTHERS 3
#endif
#define MOST 3      /* the handler fails at most so often in a row */

/* The row. */
byte status = NEW;
byte count;         /* Memory.Failures */

/* What the row should be. */
byte failed;        /* failed attempts that were written since the count was last set to 0 */
bool counted;       /* the attempt under way is one of them */

/* The attempt under way. */
byte readStatus;
byte readCount;
byte outcome;
bool called;        /* the handler has been called since the row was read */
bool succeeded;     /* and has succeeded */
bool made;          /* the outcome was written by an earlier commit */
bool unsure;        /* Record.Unsure: an earlier commit lost its answer */
byte faults;
byte others;
bool calling;       /* the handler is called */

#ifdef NO_STATUS
#define sameStatus true
#else
#define sameStatus (status == readStatus)
#endif
#ifdef NO_COUNT
#define sameCount true
#else
#define sameCount (count == readCount)
#endif
#ifdef NO_EXACT
#define exact false
#else
#define exact unsure
#endif

/* Table.unchangedConditions and checksFailures: the row is as it was read. */
#define unchanged (sameStatus && ((outcome == SUCCESS && !exact) || sameCount))

/* The UPDATE of an outcome is committed. */
inline write() {
	assert(outcome != SUCCESS || succeeded);                 /* no success without a handler's */
	assert(outcome != INTERRUPTED);                          /* a handler that a stop ended was no attempt */
	assert(status == readStatus);                            /* another program's change wins */
	assert(outcome == SUCCESS && !made || count == readCount);
	made = true;
	status = (outcome == SUCCESS -> SUCCESS : FAILED);
	if
	:: outcome != SUCCESS ->
		count = readCount + 1;
		failed = (counted -> failed : failed + 1);
		counted = true
	:: else
	fi;
	assert(count == failed)                                  /* the count is the failed attempts written */
}

/* The answer to a commit is lost: commitError. */
inline loseAnswer() {
#ifndef NO_UNSURE
	unsure = true
#else
	skip
#endif
}

/* Engine.Pass, one after the other. */
active proctype passes() {
read:
	atomic {
		status != SUCCESS ->
		readStatus = status;
		readCount = count;
		succeeded = false;
		made = false;
		counted = false;
		unsure = false;
		calling = true
	}
	/* run.attempt */
	atomic {
		calling = false;
		if
		:: true ->
			succeeded = true;
			outcome = SUCCESS
		:: readCount < MOST -> outcome = FAILED
		:: faults < FAULTS ->                             /* killed */
			faults++;
			goto read
		:: faults < FAULTS ->                             /* run.ended: a stop has ended the handler */
			faults++;
#ifdef NO_INTERRUPTED
			outcome = INTERRUPTED
#else
			goto read
#endif
		fi
	}
	/* settler.writeGroup: until the database has answered */
	do
	:: atomic { unchanged ->
		write();
		goto done }
	:: atomic { unchanged && faults < FAULTS ->
		faults++;
		write();
		loseAnswer() }
	:: atomic { faults < FAULTS ->                            /* nothing was written, and nobody knows */
		faults++;
		loseAnswer() }
	:: atomic { faults < FAULTS -> faults++ }                 /* ErrUnavailable, before the commit */
	:: atomic { faults < FAULTS ->                            /* settler.giveUp, or killed */
		faults++;
		goto done }
	:: atomic { !unchanged ->                                 /* Table.conflict */
		assert(!made || unsure || others > 0);            /* our own write is no conflict */
		goto done }
	od;
done:
#ifdef NO_NEXT_PASS
	status == SUCCESS;
#endif
	goto read
}

/* Another program: `backlog retry`, or one that works on the same rows. */
active proctype other() {
	do
	:: d_step { others < OTHERS && status != SUCCESS ->
		others++;
		status = SUCCESS }
	:: d_step { others < OTHERS ->
		others++;
		status = NEW;
		count = 0;
		failed = 0;
		counted = false }
	:: d_step { others < OTHERS && count <= MOST ->
		others++;
		status = FAILED;
		count++;
		failed++ }
	:: others == OTHERS -> break
	od
}

/* While passes come, a pending record is tried again. */
ltl tried { [] (status != SUCCESS -> <> (calling || status == SUCCESS)) }
