package tiers

import (
	"testing"
	"time"
)

func TestParseDurationOfISO(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"PT5M": 5 * time.Minute, "P7D": 7 * 24 * time.Hour, "P1DT12H": 36 * time.Hour, "P2W": 14 * 24 * time.Hour, "PT1H30M15S": 90*time.Minute + 15*time.Second, "PT0S": 0,
	} {
		if got, err := ParseDuration(text); err != nil || got != want {
			t.Errorf("%s: %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"P", "PT", "P1M", "P1Y", "P1Y2M", "P5", "PT5M3", "PT-5M"} {
		if got, err := ParseDuration(text); err == nil {
			t.Errorf("%s: %v", text, got)
		}
	}
}
