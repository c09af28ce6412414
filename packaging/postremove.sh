#!/bin/sh
# The state and its owner stay until the package is purged; rpm has no such step, and leaves them.
set -e
if [ "$1" = purge ]; then
	rm -rf /var/lib/backlog
	userdel backlog 2>/dev/null || true
fi
[ ! -d /run/systemd/system ] || systemctl daemon-reload
