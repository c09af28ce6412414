package plan

import (
	"testing"
	"time"
)

func TestPageIsWhatTakesASecond(t *testing.T) {
	for _, c := range []struct {
		n    int
		took time.Duration
		want int
	}{
		{10, time.Second, 10},
		{10, 10 * time.Second, 10},           // at least ten
		{10, 500 * time.Millisecond, 20},     // a second's worth
		{10, 100 * time.Millisecond, 40},     // not more than four times as many
		{1000, time.Second, 1000},            // the speed is right
		{1000, 100 * time.Millisecond, 1000}, // at most a thousand
		{1000, 2 * time.Second, 500},
		{1000, time.Hour, 10},
		{300, 1500 * time.Millisecond, 200},
		{1, time.Millisecond, 10},
		{1000, 0, 1000},
		{100, 0, 400},
		{1000, -time.Hour, 1000}, // the clock was set back
		{1000, 1, 1000},
		{1, 1<<63 - 1, 10},
	} {
		r := Resume{}.Walk(Fresh).Reading()
		r.Paced(c.n, c.took, MaxPage)
		if got := r.Request().Limit; got != c.want {
			t.Errorf("want a page of %d after %d records in %v, got %d", c.want, c.n, c.took, got)
		}
	}
}
