package metrics

import (
	"net"
	"strings"
)

// Settings are what the configuration says of a listener for metrics alone.
type Settings struct {
	Listen string `yaml:"listen" required:"127.0.0.1:9464"` // host:port, or unix: and a path
	Open   bool   `yaml:"open"`                             // nobody is asked for the token
}

// Check reports what is wrong with the settings themselves.
func (s *Settings) Check(fail func(field, problem string)) {
	_, _, err := net.SplitHostPort(s.Listen)
	if s.Listen != "" && err != nil && !strings.HasPrefix(s.Listen, "unix:") {
		fail("listen", "is no address; write a host and a port such as 127.0.0.1:9464 or :9464, or unix:/run/backlog/metrics.sock")
	}
}
