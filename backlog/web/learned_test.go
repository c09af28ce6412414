package web_test

import (
	"strings"
	"testing"
	"time"

	"backlog/backlog/web"
)

func TestLearnedPicture(t *testing.T) {
	l := web.Learned{Points: []web.LearnedPoint{
		{Age: time.Minute, Share: 1, Low: 0.9, High: 1}, {Age: time.Hour, Share: 0.5, Low: 0.4, High: 0.6}, {Age: 60 * time.Hour},
	}}
	if got, want := l.Curve(), "M40.0 10.0L320.0 85.0L600.0 160.0"; got != want {
		t.Errorf("the curve is %s, want %s", got, want)
	}
	if got, want := l.Band(), "M40.0 10.0L320.0 70.0L600.0 160.0L600.0 160.0L320.0 100.0L40.0 25.0Z"; got != want {
		t.Errorf("the band is %s, want %s", got, want)
	}
	if n := len(l.Marks()); n != 5 { // 1m, 10m, 1h, 6h, 1d
		t.Errorf("%d marks: %v", n, l.Marks())
	}
	one := web.Learned{Points: []web.LearnedPoint{{Age: time.Hour, Share: 0.5}}}
	if got := one.Curve(); strings.Contains(got, "NaN") {
		t.Errorf("the curve of one point is %s", got)
	}
}
