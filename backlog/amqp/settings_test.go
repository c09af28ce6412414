package amqp

import (
	"strings"
	"testing"
)

func TestURLsThatAreNone(t *testing.T) {
	for _, c := range []struct {
		url, want string // what is said of it begins so; "": nothing
	}{
		{"amqp://u:p@rabbit:5672/shop%23", ""},
		{"amqps://[::1]", ""},
		{"amqp:rabbit", "is not a URL"},
		{"rabbit:5672", "is not a URL"},
		{"http://rabbit", "is not a URL"},
		{"", "is not a URL"},
		{"amqp:rabbit?://", "is not a URL"},
		{"amqp:#://", "names no host"},
		{"amqp://", "names no host"},
		{"amqps:///shop", "names no host"},
		{"amqp://:5672/", "names no host"},
		{"amqp://u:p@/", "names no host"}, // ${HOST} is empty
		{"amqp://rabbit:99999/", "has a port"},
		{"amqp://rabbit:0/", "has a port"},
		{"amqp://rabbit/shop#1", "has a #"},
	} {
		got := ""
		checkURLs([]string{c.url}, func(_, problem string) { got = problem })
		if !strings.HasPrefix(got, c.want) || c.want == "" && got != "" {
			t.Errorf("%q: %q, want %q", c.url, got, c.want)
		}
	}
}
