package handler

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// maxRetryAfter is how long a wait a server is believed to mean.
const maxRetryAfter = 366 * 24 * time.Hour

// parseRetryAfter returns how long the value of a Retry-After header, in
// seconds or a date, asks to wait from now on: 0 if it does not, or if it asks
// for nonsense.
func parseRetryAfter(value string, now time.Time) time.Duration {
	value = strings.TrimSpace(value)
	var wait time.Duration
	if seconds, err := strconv.ParseUint(value, 10, 32); err == nil {
		wait = time.Duration(seconds) * time.Second
	} else if at, err := http.ParseTime(value); err == nil {
		wait = at.Sub(now)
	}
	if wait < 0 || wait > maxRetryAfter {
		return 0
	}
	return wait
}
