/*
Ticks, passes and the state file, while the process is killed or the power fails between any two
steps. Is each tick covered by a pass that has ended, or does the file on the disk still owe it? And
is everything that is owed covered at last?

A schedule has two tiers; a pass of the wide tier covers the narrow one. The loop wakes at any
moment, handles the ticks since the last wake, writes the state, and starts one pass. Each tier has
at most one pass. Comments name the Go functions.

The state file has two copies here: what a process reads, and what is there after a power failure.
Times are left out: for each copy, and for the loop, the model keeps whether a tier has ticked after
its last wake. An update of the file changes both at two moments: when the file is renamed, and when
its folder is synced.

What goes wrong: the process is killed, or the power fails, at most KILLS times; a pass is cut short
by a lost lock, a stop or an unavailable store, at most CUTS times; there are PAUSES pauses.

Left out: a file that cannot be written, clocks that are set back, reloads, `once --due`, and the
other state folder of a standby on another machine.

Documented exception, which is no error here: a tick of a tier whose pass is under way counts as
that pass's (Event TierSkipped).
*/

#define NARROW 0
#define WIDE 1

#ifndef TICKS
#define TICKS 3
#endif
#ifndef KILLS
#define KILLS 2
#endif
#ifndef CUTS
#define CUTS 1
#endif
#ifndef PAUSES
#define PAUSES 1
#endif

/* The state file as processes read it, and as it is on the disk. */
typedef StateFile {
	bool after[2];      /* a tick came after LastWake */
	bool unfinished[2]  /* Checkpoint.Unfinished */
}
StateFile file;
StateFile disk;

/* The loop. */
#define DOWN 0
#define IDLE 1
#define NOTE 2          /* wake: the state is to be written */
#define NOTE_OWED 3     /* only if the guard is taken out that there is one update */
#define START 4         /* wake: the pass is to be started */
byte phase = DOWN;
bool ticked[2];         /* Clock.Last: a tick came after it */
bool owed[2];           /* Clock.Owed */
bool taken[2];          /* Wake.Taken */
bool delayed[2];        /* Wake.Delayed */
#define NOBODY 2
byte starts = NOBODY;   /* the tier whose pass starts */
bool unsynced;          /* the file is renamed and its folder is not synced: File.Change */

/* The passes, by their tier. */
#define NONE 0
#define RESERVED 1      /* Loop.reserve */
#define RUNNING 2
#define ENDING 3        /* it has ended, and the state is to be written */
#define CUT 4           /* it was cut short, and the state is to be written */
byte pass[2];
bool covers[2];         /* its ticks are also the narrow tier's: Pass.tickTiers */
byte passFor[2] = NOBODY; /* Loop.passFor: whose last tick is left to which pass */

bool paused;
byte ticks;
byte kills;
byte cuts;
byte pauses;

/* What should be: a tick came that no pass has covered, and whether it came since a pass began. */
bool uncovered[2];
bool since[4];          /* at pass * 2 + tier */

#define isFor(p, t) ((p) == (t) || ((t) == NARROW && covers[WIDE]))
#define due(t) (ticked[t] || (owed[t] && !paused))
#define isKept(s, t) (!uncovered[t] || s.after[t] || s.unfinished[t])

/* File.Change, first half. */
inline rename() {
	unsynced = true;
#ifdef NO_FSYNC
	/* without renameio's fsync, a power failure may leave an empty file */
	disk.after[NARROW] = false;
	disk.after[WIDE] = false;
	disk.unfinished[NARROW] = false;
	disk.unfinished[WIDE] = false
#endif
}

/* The power fails: the file is what is on the disk. */
inline bringBack() {
	file.after[NARROW] = disk.after[NARROW];
	file.after[WIDE] = disk.after[WIDE];
	file.unfinished[NARROW] = disk.unfinished[NARROW];
	file.unfinished[WIDE] = disk.unfinished[WIDE];
	unsynced = false
}

/* File.Change, second half. */
inline sync() {
	disk.after[NARROW] = file.after[NARROW];
	disk.after[WIDE] = file.after[WIDE];
	disk.unfinished[NARROW] = file.unfinished[NARROW];
	disk.unfinished[WIDE] = file.unfinished[WIDE];
	unsynced = false
}

#define setAll(x, value) x[NARROW] = value; x[WIDE] = value

/* Loop.owe: the ticks of a pass that was cut short are due at the next wake. */
inline owe(p) {
#ifndef NO_OWE_AGAIN
	owed[NARROW] = (owed[NARROW] || (isFor(p, NARROW) && passFor[NARROW] == p));
	owed[WIDE] = (owed[WIDE] || (p == WIDE && passFor[WIDE] == p))
#else
	skip
#endif
}

/* Loop.handled and Checkpoint.Taken: the ticks that were left to the pass have run. */
inline handled(p) {
	for (t : NARROW .. WIDE) {
		if
#ifdef NO_PASS_FOR
		:: isFor(p, t) ->
#else
		:: isFor(p, t) && passFor[t] == p ->
#endif
			passFor[t] = NOBODY;
			file.unfinished[t] = false
		:: else
		fi;
		uncovered[t] = (isFor(p, t) && !since[p * 2 + t] -> false : uncovered[t])
	}
	t = 0
}

/* tiers.Coalesce and Loop.plan: the widest due tier without a pass starts. */
inline plan(p) {
	starts = p;
	pass[p] = RESERVED;
	covers[WIDE] = (p == WIDE -> due(NARROW) : covers[WIDE]);
	passFor[p] = p;
	passFor[NARROW] = (isFor(p, NARROW) -> p : passFor[NARROW]);
	since[p * 2 + NARROW] = false;
	since[p * 2 + WIDE] = false
}

/* Checkpoint.Owe: the ticks of the pass that is to start */
inline noteOwed(x) {
#ifndef NO_OWE
	file.unfinished[x] = (starts != NOBODY && isFor(starts, x) -> true : file.unfinished[x])
#else
	skip
#endif
}

/* The end of the process, with all of its memory. */
inline die() {
	phase = DOWN;
	setAll(ticked, false);
	setAll(owed, false);
	setAll(taken, false);
	setAll(delayed, false);
	setAll(pass, NONE);
	setAll(passFor, NOBODY);
	setAll(covers, false);
	starts = NOBODY
}

inline tick(x) {
	uncovered[x] = true;
	ticked[x] = (phase != DOWN);
	file.after[x] = true;
	disk.after[x] = true;
	since[x] = true;
	since[2 + x] = true
}

active proctype loop() {
	byte t;
	do
	/* Loop.restore */
	:: d_step { phase == DOWN && !unsynced ->
		for (t : NARROW .. WIDE) {
			ticked[t] = file.after[t];
#ifndef NO_RESTORE
			owed[t] = file.unfinished[t]
#endif
		}
		t = 0;
		phase = IDLE }
	/* Loop.wake: Clock.Wake */
	:: d_step { phase == IDLE && (due(NARROW) || due(WIDE)) ->
		setAll(taken, false);
		setAll(delayed, false);
		if
		:: paused ->
			for (t : NARROW .. WIDE) {
				delayed[t] = due(t);
				since[t * 2 + t] = (due(t) && pass[t] != NONE -> false : since[t * 2 + t]);
#ifndef NO_DELAY_APART
				passFor[t] = (due(t) && pass[t] == NONE -> NOBODY : passFor[t]);
#endif
				owed[t] = (owed[t] || due(t))
			}
		:: else ->
			for (t : NARROW .. WIDE) {
				taken[t] = owed[t]
			}
			if
			:: due(WIDE) && pass[WIDE] == NONE -> plan(WIDE)
			:: else ->
				if
				:: due(WIDE) ->                      /* skipped */
					since[WIDE * 2 + WIDE] = false;
#ifndef NO_KEEP_SKIPPED
					taken[WIDE] = false
#endif
				:: else
				fi;
				if
				:: due(NARROW) && pass[NARROW] == NONE -> plan(NARROW)
				:: due(NARROW) && pass[NARROW] != NONE -> /* skipped */
					since[NARROW] = false;
#ifndef NO_KEEP_SKIPPED
					taken[NARROW] = false
#endif
				:: else
				fi
			fi;
			setAll(owed, false)
		fi;
		t = 0;
		setAll(ticked, false);
		phase = NOTE }
	/* Loop.wake: one update of the state */
	:: d_step { phase == NOTE && !unsynced ->
		for (t : NARROW .. WIDE) {
			file.after[t] = ticked[t];
			file.unfinished[t] = (taken[t] -> false : file.unfinished[t]);
#ifndef NO_DELAYED
			file.unfinished[t] = (delayed[t] -> true : file.unfinished[t]);
#endif
#ifndef TWO_UPDATES
			noteOwed(t)
#endif
		}
		t = 0;
		rename();
		phase = NOTE_OWED }
	:: d_step { phase == NOTE_OWED && !unsynced ->
#ifdef TWO_UPDATES
		noteOwed(NARROW);
		noteOwed(WIDE);
		rename();
#endif
		phase = START }
	:: d_step { phase == START && !unsynced ->
		if
		:: starts != NOBODY -> pass[starts] = RUNNING
		:: else
		fi;
		starts = NOBODY;
		phase = IDLE }
	/* File.Change, second half */
	:: d_step { unsynced -> sync() }
	od
}

/* Loop.runPass */
proctype passOf(byte p) {
	byte t;
	do
	:: d_step { pass[p] == RUNNING -> pass[p] = ENDING }
	:: d_step { pass[p] == RUNNING && (cuts < CUTS || paused) ->
		cuts = (paused -> cuts : cuts + 1);
		pass[p] = CUT }
	/* Loop.ended */
	:: d_step { pass[p] == ENDING && !unsynced ->
		handled(p);
		rename();
		pass[p] = NONE }
	:: d_step { pass[p] == CUT && !unsynced ->
#ifdef NO_CUT_SHORT
		passFor[p] = NOBODY;
		file.unfinished[p] = false;
#else
		file.unfinished[p] = true; /* Checkpoint.Note */
#endif
		rename();
		owe(p);
		pass[p] = NONE }
	od
}

active proctype clock() {
	do
	:: d_step { ticks < TICKS -> ticks++; tick(NARROW) }
	:: d_step { ticks < TICKS -> ticks++; tick(WIDE) }
	:: ticks == TICKS -> skip /* time goes on */
	od
}

active proctype trouble() {
	byte t;
	do
	:: d_step { kills < KILLS && phase != DOWN -> kills++; die() }
	:: atomic { kills < KILLS && phase != DOWN ->
		kills++;
		if
		:: unsynced -> d_step { sync(); die() }    /* the rename was on the disk already */
		:: true -> d_step { bringBack(); die() }
		fi }
	:: d_step { pauses < PAUSES && !paused -> pauses++; paused = true }
	:: d_step { paused -> paused = false }
	od
}

init {
	atomic {
		run passOf(NARROW);
		run passOf(WIDE)
	}
}

/* Each tick is covered by a pass that has ended, or owed by the file and by the disk. */
active proctype invariant() {
end:	d_step {
		!isKept(file, NARROW) || !isKept(file, WIDE) || !isKept(disk, NARROW) || !isKept(disk, WIDE) ->
		assert(false)
	}
}

/* When no more ticks come, and nothing more goes wrong, all have been covered at last. */
ltl covered { <> [] (!uncovered[NARROW] && !uncovered[WIDE]) }
