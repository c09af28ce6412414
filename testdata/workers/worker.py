#!/usr/bin/env python3
"""A worker for `handler: {lines: [./worker.py]}`: see docs/lines.md."""
import json
import os
import sys
import time


def handle(record):
    """The work itself. What it raises is the record's error."""
    if record.get("city") == "Nowhere":
        raise ValueError("there is no such city")


def answer(request):
    """The reply to one request."""
    reply = {"attempt_id": request["attempt_id"], "outcome": "success"}
    try:
        handle(request["record"])
    except Exception as e:  # it costs this record, not the others
        reply.update(outcome="error", error=f"{type(e).__name__}: {e}")
    return reply


def requests():
    """Yields each line of standard input, and whether more of them are here already."""
    rest = b""
    while chunk := os.read(0, 1 << 16):
        *lines, rest = (rest + chunk).split(b"\n")
        for i, line in enumerate(lines, 1):
            yield line, i < len(lines)


# Replies are written together, which is most of the speed, but never kept while
# there is nothing to do, nor for long.
flushed = time.monotonic()
for line, more in requests():
    sys.stdout.write(json.dumps(answer(json.loads(line))) + "\n")
    if not more or time.monotonic() - flushed > 0.01:
        sys.stdout.flush()
        flushed = time.monotonic()
