#!/bin/sh
# A running daemon is restarted with the new program. A new one is started by the user, once its configuration is written.
set -e
[ -d /run/systemd/system ] || exit 0
systemctl daemon-reload
systemctl try-restart 'backlog.service' 'backlog@*.service'
