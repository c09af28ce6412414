#!/bin/sh
# The state folder and its owner are removed when the package is purged. rpm has no such step and keeps them.
set -e
if [ "$1" = purge ]; then
	rm -rf /var/lib/backlog
	userdel backlog 2>/dev/null || true
fi
[ ! -d /run/systemd/system ] || systemctl daemon-reload
