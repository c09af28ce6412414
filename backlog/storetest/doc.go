// Package storetest is the conformance suite that every [backlog.Store]
// passes. It knows the contracts of package backlog and nothing of what is
// behind them.
//
// What a case does to the store it also does to a store in memory, whose rows and answers
// are those that it wants. Stores over databases so say of memory, too, what is wrong
// with it; and its own tests show that the suite catches what can go wrong.
//
// Only what is promised about a row that others change while it is tried is written out: see
// promises.go, where a row of a table is a promise, with what must then stand in the row.
//
// A new store hooks in with a [Harness], which is an empty table, the store
// under test on it, and a back door to its rows:
//
//	func TestStore(t *testing.T) {
//		storetest.Run(t, func(t *testing.T, want storetest.Table) storetest.Harness {
//			if want.Keys == storetest.BlobKeys {
//				t.Skip("this database has no BLOB keys")
//			}
//			db := create(t, want) // closed and dropped by t.Cleanup
//			return &harness{db: db, store: open(t, db, want)}
//		})
//	}
//
//	type harness struct { ... }
//
//	func (h *harness) Store() backlog.Store                           { return h.store }
//	func (h *harness) Open() (backlog.Store, error)                   { ... }
//	func (h *harness) Precision() time.Duration                       { return time.Second }
//	func (h *harness) Insert(rows ...storetest.Row) error             { ... } // INSERT, in one transaction
//	func (h *harness) Row(k backlog.Key) (storetest.Row, bool, error) { ... } // SELECT
//	func (h *harness) Rows() ([]storetest.Row, error)                 { ... } // SELECT
//	func (h *harness) Update(row storetest.Row) error                 { ... } // UPDATE
//	func (h *harness) Delete(keys ...backlog.Key) error               { ... } // DELETE
//
// A store with several forms of times (text or numbers, say) calls [Run] for one
// and [RunTimes] for the others. A harness skips the tables that its store cannot have; what a
// store does not implement (Count, Expire,
// [backlog.Locker]) is skipped by itself. In Run each random case makes 40 walks, with go
// test -short 10, as in RunTimes.
//
// A store without policies skips the tables that have one ([Table].Policy).
//
// Times are multiples of the harness's precision, and at
// most ten days before 2026-02-10T12:00:00Z, which every case takes for the
// present. Where the order of keys matters they are of digits and small
// letters, so that every collation agrees on it.
package storetest
