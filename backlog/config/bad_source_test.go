package config_test

// badSources are queues that contradict themselves, or what is not for them.
var badSources = badFiles{
	"source-beside": {
		"2: database: is not for the file of a source, which reads no table; remove it",
		"3: table: is not for the file of a source, which reads no table; remove it",
		"4: tiers: is not for the file of a source, which reads no table; remove it",
		"5: handler.sql: works on rows of a table; take exec, lines or http for messages",
		"6: policy: is not for the file of a source, which reads no table; remove it",
	},
	"source-values": {
		"3: source.amqp.url: is not a URL of AMQP; write amqp://user:password@host/vhost",
		"5: source.amqp.quorum: queue_arguments has the x-queue-type; remove one of them",
		"6: source.amqp.declare: unknown declare sometimes; known: missing, never, all",
		"7: source.amqp.exchange.type: unknown type directly; did you mean direct?",
		"8: source.amqp.prefetch: must be at most 2000, not 2001; the broker keeps what is not acknowledged in memory",
		"10: source.amqp.sneakers.max_retries: must be at most 50, not 51; each has a queue of its own",
		"10: source.amqp.sneakers.multiplier: must be at least 1, not 0",
		"10: source.amqp.sneakers.error_body: unknown error_body xml; known: json, original",
		"10: source.amqp.sneakers.queues: unknown queues stream; known: classic, quorum",
		"10: source.amqp.sneakers.retry_max_times: unknown key; known here: base, error_body, max_retries, multiplier, queues, retry_backoff_exchange, retry_error_exchange, retry_requeue_exchange, retry_routing_key",
		"12: source.amqp.vhost: unknown key; known here: consumer_timeout, declare, exchange, name, prefetch, queue, queue_arguments, quorum, sneakers, url",
		"13: handler.input: unknown input xml; known: body, json",
	},
	"source-shared": {
		"3: source.amqp.url: the environment variable NONE is not set; set it, or write $${ if the characters themselves are meant",
		"5: source.amqp.sneakers.retry_routing_key: with # every queue that shares the exchange activejob-retry-requeue would get each message that is tried again; write the queue's own key, such as primary",
		"6: handler.timeout: 26m is too long: the broker takes back what is not acknowledged within 30m; write what it allows as source.amqp.consumer_timeout",
	},
	"source-keys": {
		"6: source.amqp.sneakers.max_retries: the last delay would be 3153600000000 ms, and the broker takes 315360000000 at most",
		"6: source.amqp.sneakers.retry_routing_key: orders.* does not match the routing key other, so that what is tried again would come back under no key; write one without wildcards",
		"7: handler.redis: works on rows of a table; take exec, lines or http for messages",
	},
	"source-nothing": {
		"1: source.amqp: has no url; add url: amqp://user:password@host/vhost",
		"1: source.amqp: has no queue; add queue: primary",
		"1: source.amqp.exchange: must be none, or a mapping such as {name: sneakers, type: direct}",
	},
	"source-kind":   {"1: source: names no queue; add amqp: {url: …, queue: …}"},
	"handler-input": {"1: handler.input: is what a program reads of a message, and a row is always JSON; remove it"},
}
