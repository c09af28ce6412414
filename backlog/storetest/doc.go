// Package storetest is the conformance suite that every [backlog.Store]
// passes. It knows the contracts of package backlog and nothing of what is
// behind them.
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
//	func (h *harness) Store() backlog.Store                         { return h.store }
//	func (h *harness) Text(s storetest.Status) string               { return texts[s] }
//	func (h *harness) Insert(rows ...storetest.Row) error           { ... } // INSERT, in one transaction
//	func (h *harness) Row(k backlog.Key) (storetest.Row, bool, error) { ... } // SELECT
//	func (h *harness) SetStatus(k backlog.Key, s storetest.Status) error { ... } // UPDATE
//	func (h *harness) Delete(keys ...backlog.Key) error             { ... } // DELETE
//
// A store with several forms of times (text or numbers, say) calls [Run] for one
// and [RunTimes] for the others. A harness skips the tables that its store cannot have; what a
// store does not implement (Count, Expire,
// [backlog.Locker]) is skipped by itself. A harness may also be [Precise] and
// an [Opener]. The random cases are 100 walks each; go test -short makes 20 of
// them.
//
// A store without policies skips the tables that have one ([Table].Policy).
//
// Times are multiples of a second, unless the harness is [Precise], and at
// most ten days before 2026-02-10T12:00:00Z, which every case takes for the
// present. Where the order of keys matters they are of digits and small
// letters, so that every collation agrees on it.
package storetest
