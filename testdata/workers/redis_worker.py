#!/usr/bin/env python3
"""A worker for `handler: {redis: …}`: see docs/handlers.md."""
import json
import os
import sys

import redis


def handle(request):
    """The work itself. What it raises is the attempt's failure."""
    if request.get("city") == "Nowhere":
        raise ValueError("there is no such city")


def answer(request):
    reply = {"id": request["id"], "attempt_uid": request["attempt_uid"], "type": "success"}
    try:
        handle(request)
    except Exception as e:  # it costs this attempt, not the worker
        reply.update(type="failure", error=f"{type(e).__name__}: {e}")
    return reply


requests, answers = sys.argv[1:]
server = redis.Redis.from_url(os.environ["REDIS_URL"])
while item := server.blpop(requests):
    server.rpush(answers, json.dumps(answer(json.loads(item[1]))))
