package storetest

import (
	"fmt"
	"slices"

	"backlog/backlog"
)

// A testCase is one subtest, run on a table of its own.
type testCase struct {
	name  string
	table Table
	run   func(f *fixture)
}

func cases() []testCase {
	return slices.Concat(pendingCases(), settleCases(), dateCases(), keyCases(), extraCases(), retryCases())
}

func pendingCases() []testCase {
	return []testCase{
		{"Empty", Table{}, testEmpty},
		{"Order", Table{}, testOrder},
		{"OrderOfOneTime", Table{}, testOrderOfOneTime},
		{"OrderOfTwoFreshStatuses", Table{TwoFresh: true}, testOrderOfTwoFresh},
		{"Lanes", Table{TwoFresh: true, Dead: true}, testLanes},
		{"Limit", Table{}, testLimit},
		{"Cutoff", Table{}, testCutoff},
		{"CutoffBetweenTwoSteps", Table{}, testCutoffBetweenSteps},
		{"ClockInAnotherZone", Table{}, testClockInAnotherZone},
		{"Future", Table{}, testFuture},
		{"After", Table{}, testAfter},
		{"Until", Table{}, testUntil},
		{"AfterAndUntil", Table{}, testAfterAndUntil},
		{"CursorThroughJSON", Table{TwoFresh: true}, testCursorThroughJSON},
		{"CursorOfAnotherProcess", Table{}, testCursorOfAnotherProcess},
		{"CursorOfGoneRecord", Table{}, testCursorOfGoneRecord},
		{"NewRowsDuringWalk", Table{}, testNewRowsDuringWalk},
		{"Record", Table{TwoFresh: true}, testRecord},
		{"ReadingWritesNothing", Table{Dead: true, Times: true, Notes: true}, testReadingWritesNothing},
		{"Property", Table{TwoFresh: true, Dead: true}, testProperty},
		{"PropertyOldest", Table{NoDate: Oldest}, testProperty},
		{"PropertyNewest", Table{NoDate: Newest}, testProperty},
		{"PendingCancelled", Table{}, testPendingCancelled},
	}
}

func settleCases() []testCase {
	list := []testCase{
		{"SettleNothing", Table{}, testSettleNothing},
		{"SettleWithDead", Table{Dead: true}, testSettleOutcomes},
		{"SettleWithoutDead", Table{}, testSettleOutcomes},
		{"SettleErrorKeep", Table{ErrorKeep: true, Notes: true}, testSettleOutcomes},
		{"SettleErrorKeepWithDead", Table{ErrorKeep: true, Dead: true}, testSettleOutcomes},
		{"SettleTouchesNothingElse", Table{Dead: true, Times: true, Notes: true}, testSettleTouchesNothingElse},
		{"SettleTwice", Table{}, testSettleTwice},
		{"SettleCancelled", Table{Dead: true, Notes: true}, testSettleCancelled},
		{"Guard", Table{Dead: true}, testGuard},
		{"GuardWithNotes", Table{Dead: true, Notes: true}, testGuard},
		{"GuardOfTwoFreshStatuses", Table{TwoFresh: true}, testGuardOfTwoFresh},
		{"GuardOfUnchangedStatus", Table{}, testGuardOfUnchangedStatus},
		{"GuardOfUnchangedStatusWithNotes", Table{Notes: true}, testGuardOfUnchangedStatus},
		{"NotesOfAttempts", Table{Dead: true, Notes: true}, testAttempts},
		{"NotesOfErrors", Table{Dead: true, Notes: true}, testLastError},
		{"NotesOfLongErrors", Table{Notes: true}, testLongError},
		{"NotesOfBrokenText", Table{Notes: true}, testBrokenText},
		{"Concurrency", Table{Notes: true}, testConcurrency},
	}
	for _, n := range []int{1, 2, backlog.MaxGroup - 1, backlog.MaxGroup} {
		list = append(list, testCase{
			fmt.Sprintf("SettleGroupOf%d", n),
			Table{Dead: true, Notes: true},
			func(f *fixture) { testSettleGroup(f, n) },
		})
	}
	return list
}

func dateCases() []testCase {
	return []testCase{
		{"NoDateSkip", Table{NoDate: Skip, Dead: true}, testNoDateSkip},
		{"NoDateOldest", Table{NoDate: Oldest, Dead: true}, testNoDateOldest},
		{"NoDateNewest", Table{NoDate: Newest, Dead: true}, testNoDateNewest},
		{"Eligible", Table{Times: true}, testEligible},
		{"Expires", Table{Times: true}, testExpires},
		{"PagesOfIneligible", Table{Times: true}, testPagesOfIneligible},
	}
}

func keyCases() []testCase {
	var list []testCase
	for _, k := range []Keys{IntKeys, TextKeys, BlobKeys, CompositeKeys} {
		list = append(list,
			testCase{fmt.Sprintf("%vKeys", k), Table{Keys: k, Notes: true}, testKeys},
			testCase{fmt.Sprintf("%vKeysOdd", k), Table{Keys: k}, testOddKeys},
		)
	}
	return list
}

func extraCases() []testCase {
	return []testCase{
		{"Expire", Table{TwoFresh: true, Dead: true, Notes: true}, testExpire},
		{"ExpireMany", Table{Dead: true}, testExpireMany},
		{"ExpireByOwnTime", Table{Dead: true, Times: true}, testExpireByOwnTime},
		{"ExpireWithoutDead", Table{}, testExpireWithoutDead},
		{"ExpireNoDateSkip", Table{Dead: true, NoDate: Skip}, testExpireNoDate},
		{"ExpireNoDateOldest", Table{Dead: true, NoDate: Oldest}, testExpireNoDate},
		{"ExpireNoDateNewest", Table{Dead: true, NoDate: Newest}, testExpireNoDate},
		{"ExpireCancelled", Table{Dead: true}, testExpireCancelled},
		{"ExpireEach", Table{TwoFresh: true, Dead: true, Times: true}, testExpireEach},
		{"ExpireStopped", Table{Dead: true}, testExpireStopped},
		{"CountByStatus", Table{TwoFresh: true, Dead: true}, testCountByStatus},
		{"CountBands", Table{TwoFresh: true, Dead: true}, testCountBands},
		{"CountNoDate", Table{}, testCountNoDate},
		{"CountNoDateNewest", Table{NoDate: Newest}, testCountNoDate},
		{"CountNoDateOldest", Table{NoDate: Oldest}, testCountNoDate},
		{"CountEmpty", Table{}, testCountEmpty},
		{"Lock", Table{}, testLock},
		{"LockOfAnotherProcess", Table{}, testLockOfAnotherProcess},
	}
}
