package handler

import (
	"errors"
	"testing"
	"testing/synctest"
)

// What a worker that ends well has not read waits, in its order and before
// others, and may be withdrawn.
func TestSpare(t *testing.T) {
	const line = "{}\n"
	for _, tt := range []struct {
		name  string
		lost  loss
		mute  bool   // it has answered nothing
		wait  string // of the records a to d, and of x, which waited before
		close bool
	}{
		{name: "read nothing", lost: loss{well: true}, wait: "abcdx"},
		{name: "read the first", lost: loss{well: true, read: 3}, wait: "bcdx"},
		{name: "and a piece", lost: loss{well: true, read: 4}, wait: "bcdx"},
		{name: "all but the end of the line", lost: loss{well: true, read: 5}, wait: "cdx"},
		{name: "read all", lost: loss{well: true, read: 12}, wait: "x"},
		{name: "failed", lost: loss{read: 3}, wait: "x"},
		{name: "said nothing", lost: loss{well: true, read: 3}, mute: true, wait: "x"},
		{name: "closed", lost: loss{well: true, read: 3}, close: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := &Lines{slots: make([]slot, 1)}
				c := newCoprocess(l, &l.slots[0])
				l.slots[0].c = c
				tasks := make(map[string]*task)
				for _, id := range []string{"a", "b", "c", "d"} {
					tasks[id] = &task{attempt: id, line: []byte(line), done: make(chan answer, 1)}
					c.take(tasks[id])
				}
				c.answered = !tt.mute
				x := &task{attempt: "x", done: make(chan answer, 1)}
				x.place = l.waiting.PushBack(x)
				if tt.close {
					l.closed = true
					l.dismiss(&loss{why: errClosed})
				}
				lost := tt.lost
				lost.why = errors.New("gone")
				l.over(c, &lost)

				waiting := ""
				for e := l.waiting.Front(); e != nil; e = e.Next() {
					waiting += e.Value.(*task).attempt
				}
				if waiting != tt.wait {
					t.Errorf("%s wait, want %s", waiting, tt.wait)
				}
				for id, task := range tasks {
					waits := task.place != nil
					if answered := len(task.done) == 1; answered == waits || task.at != nil || waits && !l.withdraw(task, errClosed) {
						t.Errorf("%s: waits %v, answered %v", id, waits, answered)
					}
				}
				l.Close()
			})
		})
	}
}
