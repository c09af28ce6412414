#!/bin/sh
# Ends the daemons, unless this is an upgrade (argument: upgrade by dpkg, 1 by rpm).
set -e
case $1 in upgrade | 1) exit 0 ;; esac
[ -d /run/systemd/system ] || exit 0
systemctl stop 'backlog.service' 'backlog@*.service'
systemctl disable backlog.service backlog@.service # and all its instances
