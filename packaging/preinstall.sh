#!/bin/sh
# The files of the package have this owner.
set -e
getent passwd backlog >/dev/null ||
	useradd --system --user-group --home-dir /var/lib/backlog --no-create-home --shell /usr/sbin/nologin backlog
