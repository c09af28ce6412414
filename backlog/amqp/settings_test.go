package amqp

import "testing"

func TestURLsThatAreNone(t *testing.T) {
	for _, c := range []struct {
		url  string
		want int // errors
	}{
		{"amqp://u:p@rabbit:5672/shop", 0},
		{"amqps://rabbit", 0},
		{"amqp:rabbit", 1},
		{"rabbit:5672", 1},
		{"http://rabbit", 1},
		{"", 1},
	} {
		got := 0
		checkURLs([]string{c.url}, func(string, string) { got++ })
		if got != c.want {
			t.Errorf("%q: got %d errors, want %d", c.url, got, c.want)
		}
	}
}
