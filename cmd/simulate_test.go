package cmd_test

import (
	"bytes"
	"encoding/json"
	"math/big"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"backlog/backlog/retry"
	"backlog/cmd"
)

// simulated is what simulate prints, with its numbers as they are written.
type simulated struct {
	Policy   string
	Attempts []struct {
		N     int         `json:"n"`
		At    json.Number `json:"at_seconds"`
		Delay json.Number `json:"delay_seconds"`
		Least json.Number `json:"min_seconds"`
		Most  json.Number `json:"max_seconds"`
	}
}

func simulate(t *testing.T, args ...string) simulated {
	t.Helper()
	var s simulated
	if err := json.Unmarshal([]byte(run(t, append([]string{"simulate", "--json"}, args...)...)), &s); err != nil {
		t.Fatal(err)
	}
	return s
}

// shortNumber is one without a zero too many.
var shortNumber = regexp.MustCompile(`^(0|[1-9][0-9]*)(\.[0-9]*[1-9])?$`)

func rational(t *testing.T, n json.Number) *big.Rat {
	t.Helper()
	if !shortNumber.MatchString(n.String()) {
		t.Errorf("%s is not written plainly", n)
	}
	r, ok := new(big.Rat).SetString(n.String())
	if !ok {
		t.Fatalf("%s is no number", n)
	}
	return r
}

// Delays add up to the nanosecond and stay within their bounds, where the sum
// is far beyond what a duration holds, too.
func TestSimulateAddsUp(t *testing.T) {
	for _, policy := range []string{
		"fibonacci", "fibonacci: {unit: 36499d23h59m59.999999999s}", "arctan", "list", "sneakers",
		"sneakers: {base: 0.1, max_retries: 3000, max_delay: 1234.567s}", "linear: {max_retries: 500}",
		"exponential: {max_retries: 500}", "exponential: {base: 1.1, max_retries: 2000, max_delay: 12345d}",
	} {
		s := simulate(t, "--policy", policy, "--attempts", "1000")
		if name, _, _ := strings.Cut(policy, ":"); s.Policy != name {
			t.Errorf("%s is called %s", policy, s.Policy)
		}
		sum := new(big.Rat)
		for i, a := range s.Attempts {
			delay := rational(t, a.Delay)
			if a.N != i+1 || i == 0 && delay.Sign() != 0 {
				t.Fatalf("%s: attempt %d is %+v", policy, i+1, a)
			}
			if delay.Cmp(rational(t, a.Least)) < 0 || delay.Cmp(rational(t, a.Most)) > 0 {
				t.Errorf("%s: the delay is out of its bounds: %+v", policy, a)
			}
			if sum.Add(sum, delay).Cmp(rational(t, a.At)) != 0 {
				t.Fatalf("%s: attempt %d is at %s, not %s", policy, a.N, a.At, sum.FloatString(9))
			}
		}
	}
}

// Every setting that a policy has can be given.
func TestSimulateSettings(t *testing.T) {
	written := map[string]string{
		"unit": "90s", "max": "90s", "interval": "90s", "max_delay": "90s", "base,seconds": "15", "base": "1.5", "max_retries": "4", "intervals": "[0, 5m]",
	}
	for _, name := range retry.Names() {
		if name == "refresh" { // whose settings depend on each other, and are tried where they are read
			continue
		}
		for _, f := range reflect.VisibleFields(reflect.TypeOf(retry.New(name)).Elem()) {
			tag := f.Tag.Get("yaml")
			if tag == "" || tag == "columns" {
				continue
			}
			key, _, _ := strings.Cut(tag, ",")
			policy := name + ": {" + key + ": " + written[tag] + "}"
			if got := simulate(t, "--policy", policy); got.Policy != name || len(got.Attempts) < 3 {
				t.Errorf("%s: %+v", policy, got)
			}
		}
	}
}

// What follows from chance follows from the seed.
func TestSimulateSeeds(t *testing.T) {
	const policy = "exponential: {max_retries: 50}"
	seen := make(map[string]bool)
	for _, seed := range []string{"0", "1", "2", "18446744073709551615"} {
		args := []string{"simulate", "--json", "--policy", policy, "--attempts", "50", "--seed", seed}
		one := run(t, args...)
		if run(t, args...) != one {
			t.Errorf("seed %s draws this and that", seed)
		}
		seen[one] = true
	}
	if len(seen) != 4 {
		t.Errorf("four seeds draw %d series", len(seen))
	}
}

// A mistake in --policy is told in one place, whatever stands in it.
func TestSimulateShowsNoControls(t *testing.T) {
	for _, policy := range []string{"\x1b[31mred", "a\x00b", "fibonacci: {\"\x1b\": 1}", "fibonacci: {unit: \"\\e[31m\"}", "{\x07: {}}"} {
		var out, err bytes.Buffer
		status := cmd.Main([]string{"simulate", "--policy", policy}, strings.NewReader(""), &out, &err)
		if status != 2 || out.Len() > 0 || strings.ContainsAny(err.String(), "\x00\x07\x1b") {
			t.Errorf("%q: exit status %d, %q %q", policy, status, &out, &err)
		}
	}
}
