package pings

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	"backlog/tiers"
)

// Settings are what the configuration says of whoever is told of passes. URL may be secret
// and must not be printed.
type Settings struct {
	URL    string   `yaml:"url,env" required:"https://hc-ping.com/KEY/{tier}"` // {tier} stands for the tier's name, escaped
	Tiers  []string `yaml:"tiers,names" want:"the name of a tier, a list of them, or all"`
	FailIf FailIf   `yaml:"fail_if"`
}

// FailIf says which passes are failures beside those that end with an error.
type FailIf struct {
	FailedRatio float64 `yaml:"failed_ratio"` // at least so many of the attempts failed; 0: never
}

// NewSettings returns the defaults.
func NewSettings() *Settings { return &Settings{Tiers: []string{all}} }

// CheckTiers returns an error if the settings name a tier that the schedule does not have.
func (s *Settings) CheckTiers(list []tiers.Tier) error {
	for _, name := range s.Tiers {
		if name != all && !slices.ContainsFunc(list, func(t tiers.Tier) bool { return t.Name == name }) {
			return fmt.Errorf("pings: tiers: the schedule has no tier %q", name)
		}
	}
	return nil
}

// all is what stands for every tier.
const all = "all"

// Check reports what is wrong with the settings themselves. Nothing secret is in what it says.
func (s *Settings) Check(fail func(field, problem string)) {
	u, err := url.Parse(strings.ReplaceAll(s.URL, "{tier}", "1d"))
	switch {
	case s.URL == "":
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		fail("url", "is no address; write one such as https://hc-ping.com/KEY/{tier}")
	case !strings.Contains(s.URL, "{tier}") && (len(s.Tiers) != 1 || s.Tiers[0] == all):
		fail("url", "has no {tier}: a tier that works would hide one that does not; add it, or name one tier in tiers")
	}
	if r := s.FailIf.FailedRatio; r < 0 || r > 1 {
		fail("fail_if.failed_ratio", "must be from 0 to 1: the share of attempts that failed")
	}
}
