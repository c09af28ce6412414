package history

import (
	"fmt"
	"strings"
	"time"
)

// ReadNotes returns the calls that handlers have written down, one line for each event:
//
//	began NANOSECONDS ATTEMPT KEY PID PROGRAM TIER
//	dead NANOSECONDS ATTEMPT KEY PID PROGRAM TIER
//	seen NANOSECONDS ATTEMPT
//	ended NANOSECONDS ATTEMPT OUTCOME
//
// The second is the beginning of a call of on_dead. A line without its end is a violation, and
// so is one that fits to no call.
func ReadNotes(text string) (calls []Call, torn []Violation) {
	index := make(map[string]int) // of the calls, by what is unique to them
	for line := range strings.Lines(text) {
		fault := readNote(line, &calls, index)
		if fault != "" {
			torn = append(torn, Violation{Rule: Torn, Text: fmt.Sprintf("%s: %q", fault, line)})
		}
	}
	return calls, torn
}

// readNote adds one line to the calls, and returns what is wrong with it.
func readNote(line string, calls *[]Call, index map[string]int) (fault string) {
	f := strings.Fields(line)
	var nanoseconds int64
	if len(f) < 3 || !strings.HasSuffix(line, "\n") {
		return "a torn line"
	}
	if _, err := fmt.Sscan(f[1], &nanoseconds); err != nil {
		return "no time"
	}
	at := time.Unix(0, nanoseconds)
	attempt := f[2]
	i, known := index[attempt]
	switch {
	case (f[0] == "began" || f[0] == "dead") && len(f) == 7:
		if known {
			return "an attempt that was there before"
		}
		call := Call{Key: f[3], Attempt: attempt, Tier: f[6], OnDead: f[0] == "dead", Began: at, Seen: at}
		if _, err := fmt.Sscan(f[4]+" "+f[5], &call.PID, &call.Program); err != nil {
			return "no process"
		}
		index[attempt] = len(*calls)
		*calls = append(*calls, call)
	case !known:
		return "an attempt that has not begun"
	case f[0] == "seen":
		(*calls)[i].Seen = at
	case f[0] == "ended" && len(f) == 4:
		(*calls)[i].Ended = at
		(*calls)[i].Outcome = f[3]
	default:
		return "an unknown line"
	}
	return ""
}
