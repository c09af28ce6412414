// Package backlog processes records that wait in a table: it hands each to a
// [Handler], writes the outcome back, and retries what failed, less often as it
// ages.
//
// An [Engine] runs one pass over a [Store]: it selects the pending records up
// to an age, the fresh before the failed, and settles each once its handler has
// ended. A [Loop] runs such passes as the ticks of a schedule come; see package
// backlog/tiers. Where age is not to decide alone, a [Policy] does; package
// backlog/backlog/retry has those that are known by name.
//
// A store is two methods. Package backlog/backlog/table has one over a table of
// an SQL database, opened by the program itself or not, and package
// backlog/backlog/memory one for tests.
//
// Processing is at least once: success is written only where the handler
// returned nil, and a crash at any moment leaves each record either settled or
// pending. A record is never handled twice at a time by one Engine; between
// processes that takes the [RunLock], which a Loop takes if it is given a
// [Locker] and which a program that calls [Engine.Pass] itself takes by
// [WaitLock].
//
// Nothing is read from files or the environment, and nothing is logged but what
// handlers exchange, by [LogExchange]. What happens goes to Observe; the time
// comes from the function Now.
package backlog
