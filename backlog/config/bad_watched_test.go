package config_test

// badWatched are pages, metrics and pings that contradict themselves.
var badWatched = badFiles{
	"metrics-listen": {
		"1: metrics.listen: is no address; write a host and a port such as 127.0.0.1:9464 or :9464, or unix:/run/backlog/metrics.sock",
		"1: metrics.opened: unknown key; did you mean open?",
	},
	"metrics-nowhere": {"1: metrics: has no listen; add listen: 127.0.0.1:9464"},
	"pings-url": {
		"1: pings.url: is no address; write one such as https://hc-ping.com/KEY/{tier}",
		"1: pings.fail_if.failed_ratio: must be from 0 to 1: the share of attempts that failed",
	},
	"pings-tier":   {"1: pings.url: has no {tier}: a tier that works would hide one that does not; add it, or name one tier in tiers"},
	"source-pings": {"4: pings: is not for the file of a source, which reads no table; remove it"},
}
