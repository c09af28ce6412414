package metrics

import (
	"net"
	"strconv"
	"strings"
)

// Settings are what the configuration says of a listener for metrics alone.
type Settings struct {
	Listen string `yaml:"listen" required:"127.0.0.1:9464"` // host:port, or unix: and a path
	Open   bool   `yaml:"open"`                             // nobody is asked for the token
}

// Check reports what is wrong with the settings themselves.
func (s *Settings) Check(fail func(field, problem string)) {
	if path, unix := strings.CutPrefix(s.Listen, "unix:"); unix && path != "" || s.Listen == "" {
		return
	}
	_, port, err := net.SplitHostPort(s.Listen)
	if n, bad := strconv.Atoi(port); err != nil || bad != nil || n < 0 || n > 65535 {
		fail("listen", "is no address; write a host and a port such as 127.0.0.1:9464 or :9464, or unix:/run/backlog/metrics")
	}
}
