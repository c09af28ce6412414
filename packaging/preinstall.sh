#!/bin/sh
# This user owns the files of the package.
set -e
getent passwd backlog >/dev/null ||
	useradd --system --user-group --home-dir /var/lib/backlog --no-create-home --shell /usr/sbin/nologin backlog
