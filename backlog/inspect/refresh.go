package inspect

import "backlog/backlog"

// State returns the word for what a row is doing under the refresh policy: running,
// disabled, finished (no further start is planned) or waiting.
func State(s *backlog.Refresh) string {
	switch {
	case !s.Deadline.IsZero():
		return "running"
	case s.Disabled:
		return "disabled"
	case s.At.IsZero():
		return "finished"
	}
	return "waiting"
}
