package tiers

import (
	"errors"
	"math"
	"strconv"
	"strings"
	"time"
)

var errRate = errors.New("is no rate; write how many per second, minute, hour or day: 10/s, 100/m, 5000/h")

// ParseRate reads how many there are in a time, more than none, such as 10/s or
// 5000/h. The error goes on where the text is its subject.
func ParseRate(s string) (n float64, per time.Duration, err error) {
	number, unit, _ := strings.Cut(s, "/")
	n, err = strconv.ParseFloat(strings.TrimSpace(number), 64)
	per, unknown := ParseDuration("1 " + unit)
	if perSecond := n / per.Seconds(); err != nil || unknown != nil || !(perSecond > 0) || math.IsInf(perSecond, 0) {
		return 0, 0, errRate
	}
	return n, per, nil
}
