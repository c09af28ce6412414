/*
The locks of a table in a database server, second by second: do two processes ever handle a record
at the same time?

Three daemons and one `once` work on a table. Daemon 0 and `once` share a machine and its state
folder; daemons 1 and 2 have machines of their own. A process may take each of its steps at any
moment, in any order with the steps of the others. A second passes when nothing is left that must
happen before. Comments name the Go function that a step stands for.

With -DAPART `once` has a machine of its own; DAEMONS and ONCES say how many take part.

What goes wrong, at most FAULTS times: the server ends a session, the network of a process is cut,
an answer takes ANSWER seconds, a machine sleeps. Processes are killed and started at any moment.

Left out: the pause between two requests for a lock (a process asks at any moment), several passes
of one process (they share its run lock), and records: all handlers have the same one. Outcomes are
left out as well: a process whose handlers have ended gives its file back at once, while the program
may need seconds more to write them (docs/limits.md). When a daemon notices the loss of its leader
lock is not modelled by probes: it is any moment within GRACE of the loss.

Documented exceptions, which are no error here:
- A process of another machine whose first request finds the lock free does not wait: excused.
- A handler that sleeps with its machine, or begins in the seconds after, goes on for at most GRACE
  seconds when the machine wakes: woken.
- A handler goes on while its daemon is stopped by SIGSTOP: only with -DSIGSTOP.
*/

/* Seconds of the program. TestModelConstants compares them with its constants. */
#ifndef GRACE
#define GRACE 4     /* backlog.LockGrace: when handlers are killed, after the last successful probe was sent */
#endif
#ifndef TAKE_OVER
#define TAKE_OVER 5 /* backlog.TakeOverAfter: how long a process waits under a lock taken in doubt */
#endif
#ifndef PROBE
#define PROBE 2     /* backlog.probeEvery: from one probe to the next, and how long a probe may take */
#endif
#ifndef QUERY
#define QUERY 2     /* db.lockTimeout: how long a query about a lock may take */
#endif

#define ANSWER 2    /* how long a healthy server may take to answer: no lock is given up for that */
#ifndef FAULTS
#define FAULTS 1
#endif
#ifndef DAEMONS
#define DAEMONS 3
#endif
#ifndef ONCES
#define ONCES 1
#endif

#define PROCS 4
#define ONCE 3
#define NONE PROCS

#define LEADER 0
#define RUN 1

/* What a process does with a lock. */
#define OUT 0       /* it does not have the lock */
#define ON_FILE 1   /* it waits for the other process of its machine to unlock the file: localLocker.TryLock */
#define WAIT 2      /* it waits for TAKE_OVER: Claim.AwaitSafe */
#define FIRST 3     /* it probes the lock for the first time: WhileHeld */
#define HELD 4      /* it works under the lock */
#define LOST 5      /* it has noticed the loss, and its handlers are ending: run.watch */

/* What becomes of the last probe. */
#define ANSWERED 0
#define SLOW 1      /* the lock is held, and the answer is on its way */
#define SLEPT 2     /* so it is, and the machine has slept since */
#define SILENT 3    /* no answer will come */

typedef Lock {
	byte phase;
	byte timer;     /* seconds left, in ON_FILE and WAIT */
	byte age;       /* seconds since the last successful probe was sent: the deadline of WhileHeld */
	byte wall;      /* the same by a clock that goes on while the machine sleeps: HeldLock.heldAt */
	byte probe;
	bool doubt;     /* Claim.unsure: another process may have had the lock since the last request */
	bool warned     /* it should be in doubt */
}

Lock locks[2 * PROCS];
byte owner[2] = NONE;        /* whose session has the lock in the server */
byte file = NONE;            /* who has locked the file of the machine that 0 and ONCE share */
bool cut[PROCS];             /* nothing passes between the process and the server */
bool asleep[PROCS];          /* the machine sleeps, by its daemon */
bool handling[PROCS];        /* a handler runs */
bool woken[PROCS];           /* it has slept with its machine */
bool after[PROCS * PROCS];   /* at p * PROCS + q: p got the leader lock in doubt while q had the run lock */
bool excused[PROCS * PROCS]; /* of p and q, at p * PROCS + q: p found the lock of q free at its first request */
byte faults;

#define lock(k, p) locks[(k) * PROCS + (p)]
#define isAsleep(p) asleep[((p) == ONCE -> 0 : (p))]
#define mine lock(RUN, p)
#define has(k, p) (!cut[p] && owner[k] == p)
#define more(x) (x < GRACE -> x + 1 : x)
#define less(x) (x > 0 -> x - 1 : x)
#ifdef APART
#define usesFile(p) false /* daemon 0 and once are on different machines */
#else
#define usesFile(p) ((p) == 0 || (p) == ONCE)
#endif
#define leads(p) ((p) == ONCE || lock(LEADER, p).phase == HELD)
#define mayOverlap(p, q) (!lock(RUN, p).warned && (p == ONCE || q == ONCE || !after[(p) * PROCS + (q)]) && !(usesFile(p) && usesFile(q)))
#define patience (PROBE < QUERY -> PROBE : QUERY) /* callWithin and withTimeout: the shorter one counts */

/* Whose handler runs at this moment, beside the one of p? */
#ifdef SIGSTOP
#define running(q) (handling[q])
#else
#define running(q) (handling[q] && !isAsleep(q) && !woken[q])
#endif
#define clash(p, q) ((p) != (q) && running(q) && !excused[(p) * PROCS + (q)])

#if defined(NO_RECENT)
#define isRecent(p) (lock(LEADER, p).wall < GRACE)
#elif defined(NO_RECENT_LEADER)
#define isRecent(p) (lock(RUN, p).wall < GRACE)
#else
#define isRecent(p) (lock(RUN, p).wall < GRACE && lock(LEADER, p).wall < GRACE) /* HeldLock.isRecent */
#endif

#ifdef NO_FIRST_PROBE
#define ready(k) true
#else
#define ready(k) has(k, p)
#endif

/* What must happen before the second is over. */
#define answerDue(x) ((x.phase == FIRST && x.probe != ANSWERED && x.age >= patience) || \
	(x.phase == HELD && x.probe != ANSWERED && x.age >= PROBE + patience))
#define probeDue(x) (x.phase == HELD && x.probe == ANSWERED && x.age >= PROBE)
#ifdef NO_KILL
#define deadlineDue(p, x) (x.age >= GRACE && !answerDue(x) && x.phase == HELD)
#else
#define deadlineDue(p, x) (x.age >= GRACE && !answerDue(x) && (x.phase == HELD || (x.phase == LOST && handling[p])))
#endif
#define timerDue(x) ((x.phase == ON_FILE && (x.timer == 0 || file == NONE)) || (x.phase == WAIT && x.timer == 0))
#define endDue(p) (lock(RUN, p).phase == LOST && !handling[p])
#define due(p, x) (endDue(p) || answerDue(x) || probeDue(x) || deadlineDue(p, x) || timerDue(x))
#define calm(p) (isAsleep(p) || !(due(p, lock(LEADER, p)) || due(p, lock(RUN, p))))

/* The process does not have the lock any more: Lock.Unlock, or the end of the process. */
inline giveBack(k, p) {
	owner[k] = (owner[k] == p -> NONE : owner[k]);
	lock(k, p).phase = OUT;
	lock(k, p).timer = 0;
	lock(k, p).age = 0;
	lock(k, p).wall = 0;
	lock(k, p).probe = ANSWERED;
	for (i : 0 .. PROCS - 1) {
		if
		:: k == LEADER -> after[p * PROCS + i] = false
		:: else ->
			after[i * PROCS + p] = false;
			excused[p * PROCS + i] = false;
			excused[i * PROCS + p] = false
		fi
	}
	i = 0;
	if
	:: k == RUN ->
		file = (file == p -> NONE : file)
	:: else
	fi
}

/* The server has given the lock: who may still have a handler without an error? */
inline excuse(p) {
	for (i : 0 .. PROCS - 1) {
		if
		:: i != p && lock(RUN, i).phase >= FIRST && mayOverlap(p, i) ->
			excused[p * PROCS + i] = true;
			excused[i * PROCS + p] = true
		:: else
		fi
	}
	i = 0
}

/* The server has given the leader lock: whose handlers must have ended when the wait is over? */
inline follow(p) {
	for (i : 0 .. PROCS - 1) {
		after[p * PROCS + i] = (i != p && lock(LEADER, p).warned && lock(RUN, i).phase != OUT)
	}
	i = 0
}

/* The process does not have the lock, and knows that another one may. */
inline giveUp(k) {
	giveBack(k, p);
	lock(k, p).warned = true;
	lock(k, p).doubt = true
}

/* WhileHeld: work begins after a successful probe. The leader lock starts no handler by itself, and
   is not probed here. */
inline begin(k) {
	if
#ifndef NO_FIRST_PROBE
	:: !has(k, p) -> giveUp(k)
#endif
	:: ready(k) ->
		lock(k, p).doubt = false;
		lock(k, p).warned = false;
		lock(k, p).timer = 0;
		lock(k, p).phase = HELD
	:: k == RUN && has(k, p) && faults < FAULTS ->
		faults++;
		lock(k, p).phase = FIRST;
		lock(k, p).probe = SLOW
	fi
}

/* Claim.TryLock has returned the lock. */
inline taken(k) {
	if
#ifndef NO_WAIT
	:: lock(k, p).doubt ->
		lock(k, p).phase = WAIT;
		lock(k, p).timer = TAKE_OVER
	:: !lock(k, p).doubt ->
#else
	:: true ->
#endif
		begin(k)
	fi
}

/* Claim.TryLock: the process asks for a lock. */
inline ask(k) {
	if
	:: cut[p] ->                                                   /* ErrUnavailable */
		lock(k, p).warned = true;
#ifndef NO_DOUBT_UNAVAILABLE
		lock(k, p).doubt = true
#else
		skip
#endif
	:: !cut[p] && owner[k] != NONE ->
		if
		:: k == RUN && usesFile(p) && file != NONE -> skip     /* ErrLockedHere */
		:: else ->                                             /* ErrLocked */
			lock(k, p).warned = true;
#ifndef NO_DOUBT_LOCKED
			lock(k, p).doubt = true
#else
			skip
#endif
		fi
	:: !cut[p] && owner[k] == NONE ->
		owner[k] = p;
		if
		:: k == LEADER -> follow(p)
		:: k == RUN -> excuse(p)
		fi;
		if
#ifndef NO_FILE
		:: k == RUN && usesFile(p) && file != NONE ->          /* localLocker.TryLock */
			lock(k, p).phase = ON_FILE;
			lock(k, p).timer = TAKE_OVER
		:: k == RUN && usesFile(p) && file == NONE ->
			file = p;
			taken(k)
#endif
		:: else -> taken(k)
		fi
	fi
}

/* A probe has shown that the run lock was held so many seconds ago. */
inline answered(seconds) {
#ifdef AGE_OF_ANSWER
	mine.age = 0;
#else
	mine.age = seconds;
#endif
	mine.wall = (mine.probe == SLEPT -> mine.wall : mine.age);
	mine.probe = ANSWERED
}

/* Killed: what handlers have started is dead. */
inline kill(p) {
#ifndef NO_KILL
	handling[p] = false;
	woken[p] = false
#else
	skip
#endif
}

/* A second passes for a process. */
inline second(p) {
	if
	:: isAsleep(p) -> skip
	:: else ->
		lock(RUN, p).timer = less(lock(RUN, p).timer);
		lock(LEADER, p).timer = less(lock(LEADER, p).timer);
		lock(RUN, p).age = (lock(RUN, p).phase >= FIRST -> more(lock(RUN, p).age) : 0);
		lock(LEADER, p).age = (lock(LEADER, p).phase >= HELD && !has(LEADER, p) -> more(lock(LEADER, p).age) : 0)
	fi;
	lock(RUN, p).wall = (lock(RUN, p).phase >= FIRST -> more(lock(RUN, p).wall) : 0);
	lock(LEADER, p).wall = (lock(LEADER, p).phase >= HELD && !has(LEADER, p) -> more(lock(LEADER, p).wall) : 0)
}

/* Handlers that have slept with their machine go on. */
inline wake(p) {
	lock(RUN, p).probe = (lock(RUN, p).probe == SLOW -> SLEPT : lock(RUN, p).probe);
	lock(RUN, ONCE).probe = (p == 0 && lock(RUN, ONCE).probe == SLOW -> SLEPT : lock(RUN, ONCE).probe);
#ifndef SIGSTOP
	woken[p] = handling[p];
	woken[ONCE] = (p == 0 -> handling[ONCE] : woken[ONCE])
#endif
}

/* The server ends a session: by itself, or when it does not hear of the process. */
#define mayEnd(p) (cut[p] || isAsleep(p) || faults < FAULTS)
inline endSession(k, p) {
	faults = (cut[p] || isAsleep(p) -> faults : faults + 1);
	owner[k] = NONE
}

/* The run lock of a process. */
proctype passes(byte p) {
	byte i;
	do
	/* runLock.take: the process asks at any moment when it may work. */
	:: atomic { mine.phase == OUT && leads(p) && !isAsleep(p) ->
		ask(RUN) }
	/* localLocker.TryLock: the file is free, or no handler can run any more. */
	:: atomic { mine.phase == ON_FILE && timerDue(mine) && !isAsleep(p) ->
		file = (file == NONE -> p : file);
		if
		:: has(RUN, p) -> taken(RUN)
		:: else -> giveUp(RUN)
		fi }
	/* Claim.AwaitSafe: the wait is over. */
	:: atomic { mine.phase == WAIT && mine.timer == 0 && !isAsleep(p) ->
		begin(RUN) }
	/* WhileHeld: a probe is sent. */
	:: atomic { probeDue(mine) && !isAsleep(p) ->
		if
		:: has(RUN, p) -> answered(0)
		:: has(RUN, p) && faults < FAULTS ->
			faults++;
			mine.probe = SLOW
		:: !cut[p] && owner[RUN] != p -> mine.phase = LOST
		:: cut[p] -> mine.probe = SILENT
		fi }
	/* The answer comes, or the time for it is over: callWithin. */
	:: d_step { answerDue(mine) && !isAsleep(p) ->
		if
		:: mine.probe != SILENT ->
			assert(patience >= ANSWER); /* else a lock that the process has is given up */
			if
			:: mine.phase == FIRST -> answered(mine.age)
			:: else -> answered(mine.age - PROBE)
			fi;
			mine.doubt = false;
			mine.warned = false;
			mine.phase = HELD
		:: else ->
			mine.probe = ANSWERED;
			mine.phase = LOST
		fi }
	/* WhileHeld: the deadline. */
	:: d_step { deadlineDue(p, mine) && !isAsleep(p) ->
		assert(mine.probe != SLOW && mine.probe != SLEPT); /* else a lock that the process has is given up */
		mine.probe = ANSWERED;
		mine.phase = LOST;
		kill(p) }
	/* Loop.Held: the passes of a daemon end when it has lost the leader lock. */
	:: d_step { mine.phase != OUT && mine.phase != LOST && !leads(p) && !isAsleep(p) ->
		if
		:: mine.phase == HELD ->
			mine.probe = ANSWERED;
			mine.phase = LOST
		:: else -> giveBack(RUN, p)
		fi }
	/* The loss is noticed, and no handler runs any more. */
	:: d_step { endDue(p) && !isAsleep(p) ->
		giveBack(RUN, p);
		mine.warned = (p != ONCE);
#ifndef NO_DOUBT_LOST
		mine.doubt = (p != ONCE) /* runLock.lost; the next once is another process */
#endif
		}
	/* The pass ends: runLock.leave. */
	:: d_step { mine.phase == HELD && !handling[p] && !isAsleep(p) ->
		giveBack(RUN, p) }
	od
}

/* The leader lock of a daemon: Daemon.lead. */
proctype daemon(byte p) {
	byte i;
	do
	/* Daemon.standBy: it asks at any moment. */
	:: d_step { lock(LEADER, p).phase == OUT && !isAsleep(p) ->
		ask(LEADER) }
	/* Daemon.takeOver */
	:: d_step { lock(LEADER, p).phase == WAIT && lock(LEADER, p).timer == 0 && !isAsleep(p) ->
		begin(LEADER) }
	/* WhileHeld: it notices the loss at any moment until the deadline. */
	:: d_step { lock(LEADER, p).phase == HELD && !has(LEADER, p) && !isAsleep(p) ->
		lock(LEADER, p).phase = LOST }
	:: d_step { deadlineDue(p, lock(LEADER, p)) && !isAsleep(p) ->
		lock(LEADER, p).phase = LOST;
		kill(p) }
	:: d_step { lock(LEADER, p).phase == LOST && lock(RUN, p).phase == OUT && !isAsleep(p) ->
		giveUp(LEADER) }
	od
}

/* The handlers of a process, and its end by kill -9. */
proctype work(byte p) {
	byte i;
	do
	:: d_step { lock(RUN, p).phase == HELD && leads(p) && !handling[p] && !isAsleep(p) && isRecent(p) ->
		assert(!clash(p, 0) && !clash(p, 1) && !clash(p, 2) && !clash(p, 3));
		handling[p] = true;
		woken[p] = (mine.wall > mine.age || lock(LEADER, p).wall > lock(LEADER, p).age) }
	:: d_step { handling[p] && !isAsleep(p) ->
		handling[p] = false;
		woken[p] = false }
	:: d_step { !isAsleep(p) && (lock(RUN, p).phase != OUT || lock(LEADER, p).phase != OUT) ->
		handling[p] = false;
		woken[p] = false;
		giveBack(RUN, p);
		giveBack(LEADER, p);
		lock(RUN, p).doubt = false;
		lock(LEADER, p).doubt = false;
		lock(RUN, p).warned = false;
		lock(LEADER, p).warned = false }
	od
}

/* Servers, networks and machines. */
proctype trouble(byte p) {
	do
	:: d_step { !cut[p] && faults < FAULTS -> faults++; cut[p] = true }
	:: d_step { cut[p] -> cut[p] = false }
	:: d_step { p != ONCE && !asleep[p] && faults < FAULTS -> faults++; asleep[p] = true }
	:: d_step { p != ONCE && asleep[p] -> asleep[p] = false; wake(p) }
	:: d_step { owner[LEADER] == p && mayEnd(p) -> endSession(LEADER, p) }
	:: d_step { owner[RUN] == p && mayEnd(p) -> endSession(RUN, p) }
	od
}

proctype clock() {
	byte i;
	do
	:: d_step { calm(0) && calm(1) && calm(2) && calm(3) ->
		for (i : 0 .. PROCS - 1) {
			second(i)
		}
		i = 0 }
	od
}

init {
	atomic {
		byte p;
		for (p : 0 .. PROCS - 1) {
			if
			:: p < DAEMONS -> run daemon(p)
			:: else
			fi;
			if
			:: p < DAEMONS || (p == ONCE && ONCES) ->
				run passes(p);
				run work(p);
				run trouble(p)
			:: else
			fi
		}
		p = 0;
		run clock()
	}
}
