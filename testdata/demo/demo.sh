#!/bin/sh
# Makes a sample backlog in the folder demo/, which git ignores, and works it
# off. Called by make demo, from the top of the checkout.
set -eu
rm -rf demo
mkdir demo
cp testdata/demo/schedule.yaml testdata/demo/ship.sh demo/
chmod +x demo/ship.sh
PATH=$PWD/bin:$PATH

say() { printf '\n\033[1m%s\033[0m\n' "$*"; }
[ -t 1 ] || say() { printf '\n%s\n' "$*"; }
show() { say "\$ $*"; "$@"; }

go build -o bin/demo-fill ./testdata/demo
cd demo
backlog init --create-table >init.sql
demo-fill shop.db

say 'A table of orders, of all ages. Some will fail: there is no city called Nowhere.'
show backlog status
say 'One pass over the orders of the last 7 days, with ship.sh as the handler.'
show backlog once --max-age 7d --log-level error
say 'What was shipped is SUCCESS, what failed is ERROR and will be tried again.'
show backlog status
say 'The daemon (backlog run) would start these passes next:'
show backlog schedule --count 5
say 'The files are in demo/. Next, in the shell:'
echo '  cd demo; PATH=$PWD/../bin:$PATH'
echo '  backlog check; backlog once --max-age 360d; backlog run'
