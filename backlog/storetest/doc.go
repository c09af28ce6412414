// Package storetest is the conformance suite that every [backlog.Store]
// passes. It knows the contracts of package backlog, but no store.
//
// A case does the same to the store under test and to a store in memory, and compares their
// rows and answers. So the stores over databases also test the one in memory, and tests of
// package memory show which faults the suite catches.
//
// What is promised about a row that other programs change during an attempt is written out:
// promises.go has a table of promises, with what the row must have in the end.
//
// To test a new store, write a [Harness]: an empty table, the store under test on it, and
// direct access to its rows:
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
// A store with several forms of times, such as text and numbers, calls [Run] for one form
// and [RunTimes] for the others. A harness skips the tables that its store cannot have, for
// example those with a [Table].Policy. The suite skips the interfaces that a store does not
// implement (Count, Expire, [backlog.Locker], [backlog.Snoozer]). In Run each random case makes 40 walks, with
// go test -short 10, as in RunTimes.
//
// Every case takes 2026-02-10T12:00:00Z for the present. Times are multiples of the harness's
// precision, and at most ten days before that. Where the order of keys matters they consist of
// digits and small letters, which every collation orders alike.
package storetest
