#!/usr/bin/env python3
"""The Ruby worker of docs/rabbitmq.md, as far as a broker sees it: Sneakers with the backoff handler.

    sneakers_worker.py declare|publish|fail QUEUE [MULTIPLIER]

declare makes what the handler makes at its start, publish sends a job as Sneakers does, and
fail takes one message and fails it: it goes to the queue of its delay, or to the error queue.
"""
import base64
import datetime
import json
import os
import sys
import time

import pika

RETRIES = 5
command, queue = sys.argv[1:3]
multiplier = int(sys.argv[3]) if len(sys.argv) > 3 else 1000
main, requeue, error, backoff = (queue + end for end in ("-main", "-retry-requeue", "-error", "-backoff"))


def period(n):
    return 15 * 2 ** (n + 1)


def declare(ch):
    ch.exchange_declare(main, "direct", durable=True)
    ch.exchange_declare(backoff, "headers", durable=True)
    ch.exchange_declare(requeue, "topic", durable=True)
    ch.exchange_declare(error, "topic", durable=True)
    for t in (period(n) for n in range(1, RETRIES + 1)):
        name = f"{backoff}-{t}"
        ch.queue_declare(name, durable=True, arguments={"x-dead-letter-exchange": requeue, "x-message-ttl": t * multiplier})
        ch.queue_bind(name, backoff, routing_key="", arguments={"backoff": t})
    ch.queue_declare(queue, durable=True)
    ch.queue_bind(queue, main, routing_key=queue)
    ch.queue_bind(queue, requeue, routing_key="#")
    ch.queue_declare(error, durable=True)
    ch.queue_bind(error, error, routing_key="#")


def publish(ch):
    ch.basic_publish(main, queue, b'{"job": 1}', pika.BasicProperties(content_type="application/json", delivery_mode=2))


def fail(ch):
    method = None
    for _ in range(1000):
        method, properties, body = ch.basic_get(queue)
        if method:
            break
        time.sleep(0.01)
    n = (properties.headers or {}).get("count", 0) + 1
    key = method.routing_key
    if n <= RETRIES:  # Bunny's own properties, and none of the message's
        ch.basic_publish(backoff, key, body, pika.BasicProperties(
            content_type="application/octet-stream", delivery_mode=2, priority=0, headers={"backoff": period(n), "count": n}))
    else:
        inspected = f'{{:content_type=>"{properties.content_type}", :delivery_mode=>2}}'  # a Ruby hash
        ch.basic_publish(error, key, json.dumps({
            "error": "reject", "num_attempts": n, "failed_at": datetime.datetime.now().astimezone().isoformat(timespec="seconds"),
            "payload": base64.encodebytes(body).decode(), "properties": base64.encodebytes(json.dumps(inspected).encode()).decode()}),
            pika.BasicProperties(content_type="application/octet-stream", delivery_mode=2, priority=0))
    ch.basic_ack(method.delivery_tag)
    print(n, properties.content_type, body.decode())


connection = pika.BlockingConnection(pika.URLParameters(os.environ["AMQP_URL"]))
{"declare": declare, "publish": publish, "fail": fail}[command](connection.channel())
connection.close()
