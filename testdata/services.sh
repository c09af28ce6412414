#!/usr/bin/env bash
# Starts the servers that the tests use, PostgreSQL, MariaDB, Redis and RabbitMQ, unless
# they run already: in containers where there is Docker, else with the programs of Debian's
# packages, as servers of their own with data of their own. Nothing of servers
# that the machine has is changed. Called by make services; `stop` stops them.
#
# POSTGRES_PORT, MARIADB_PORT, REDIS_PORT and RABBITMQ_PORT are the ports, 5432, 3306,
# 6379 and 5672 by default. The servers do not wait for disks: the tests are faster, and nobody minds
# when what is in them is lost with the machine's power.
set -euo pipefail
cd "$(dirname "$0")/.."
export POSTGRES_PORT=${POSTGRES_PORT:-5432} MARIADB_PORT=${MARIADB_PORT:-3306} REDIS_PORT=${REDIS_PORT:-6379}
export RABBITMQ_PORT=${RABBITMQ_PORT:-5672}
data=${TMPDIR:-/tmp}/backlog-services

# The programs lie outside of PATH, in a folder for each version.
pgbin=$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | sort -V | tail -n 1 || true)
PATH=$PATH:/usr/sbin${pgbin:+:$pgbin}

has() { command -v "$1" >/dev/null; }
die() { echo "services: $*" >&2 && exit 1; }
listens() { (: <>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; } # PORT

# Whether the server lets the tests in: as its superuser, without a password.
postgres_answers() {
	listens "$POSTGRES_PORT" || return
	! has psql || psql -wqh 127.0.0.1 -p "$POSTGRES_PORT" -U postgres -c 'SELECT 1' postgres >/dev/null 2>&1
}
mariadb_answers() {
	listens "$MARIADB_PORT" || return
	! has mariadb || mariadb --no-defaults -h 127.0.0.1 -P "$MARIADB_PORT" -u root -e 'SELECT 1' test >/dev/null 2>&1
}
redis_answers() {
	listens "$REDIS_PORT" || return
	! has redis-cli || [ "$(redis-cli -h 127.0.0.1 -p "$REDIS_PORT" ping 2>/dev/null)" = PONG ]
}
rabbitmq_answers() { listens "$RABBITMQ_PORT"; }

# PostgreSQL refuses to run as root, and MariaDB wants to be told.
as() { # as USER COMMAND ...
	local user=$1 && shift
	if [ "$(id -u)" = 0 ]; then runuser -u "$user" -- "$@"; else "$@"; fi
}

# What an earlier server left when it was killed would keep the next from starting.
folder() { # folder NAME USER: makes an empty one that the user owns
	rm -rf "${data:?}/$1"
	mkdir -p "$data" && chmod 755 "$data" && mkdir -m 700 "$data/$1"
	if [ "$(id -u)" = 0 ]; then chown "$2" "$data/$1"; fi
}

start_postgres() {
	local dir=$data/postgres
	folder postgres postgres
	as postgres initdb -D "$dir/data" -U postgres -A trust -E UTF8 >/dev/null
	# Nothing has to outlive the tests, and a query that is run once is not worth compiling.
	local fast="-c fsync=off -c full_page_writes=off -c synchronous_commit=off -c jit=off"
	(cd / && as postgres pg_ctl -D "$dir/data" -l "$dir/log" -w -o "-p $POSTGRES_PORT -k $dir -c listen_addresses=127.0.0.1 -c max_connections=300 $fast" start >/dev/null) ||
		die "PostgreSQL does not start: see $dir/log"
}

start_mariadb() {
	local dir=$data/mariadb tmp=/dev/shm # its temporary tables are many and small
	[ -w $tmp ] || tmp=$dir
	folder mariadb mysql
	as mysql mariadb-install-db --no-defaults --datadir="$dir/data" --auth-root-authentication-method=normal >/dev/null
	as mysql sh -c 'cd / && exec nohup "$@" >"$0" 2>&1 &' "$dir/log" mariadbd --no-defaults --datadir="$dir/data" --socket="$dir/socket" \
		--pid-file="$dir/pid" --port="$MARIADB_PORT" --bind-address=127.0.0.1 --skip-name-resolve \
		--tmpdir="$tmp" --innodb-flush-method=nosync --innodb-flush-log-at-trx-commit=2 --skip-innodb-doublewrite --sync-frm=0 --max-connections=300
	for _ in $(seq 300); do
		! mariadb_answers || return 0
		sleep 0.1
	done
	die "MariaDB does not start: see $dir/log"
}

start_redis() {
	local dir=$data/redis
	folder redis redis
	as redis redis-server --port "$REDIS_PORT" --bind 127.0.0.1 --dir "$dir" --pidfile "$dir/pid" --logfile "$dir/log" --save '' --appendonly no --daemonize yes >/dev/null
	for _ in $(seq 100); do
		! redis_answers || return 0
		sleep 0.1
	done
	die "Redis does not start: see $dir/log"
}

# The node has a name and a cookie of its own, by which rabbitmqctl finds it. Its second
# port stays clear of 35672 to 35682, where rabbitmqctl itself listens, and the cookie
# is written first, as server and rabbitmqctl would both make one. Its idle threads do not
# spin, which the tests would pay for.
rabbitmq() { # rabbitmq PROGRAM ARGUMENT ...
	local dir=$data/rabbitmq program=$1 && shift
	as rabbitmq env HOME="$dir" RABBITMQ_NODENAME="backlog-$RABBITMQ_PORT@localhost" RABBITMQ_CONF_ENV_FILE=/dev/null RABBITMQ_CONFIG_FILE="$dir/none" \
		RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS="+sbwt none +sbwtdcpu none +sbwtdio none" \
		RABBITMQ_NODE_IP_ADDRESS=127.0.0.1 RABBITMQ_NODE_PORT="$RABBITMQ_PORT" RABBITMQ_DIST_PORT=$((RABBITMQ_PORT + 19000)) \
		RABBITMQ_MNESIA_BASE="$dir/data" RABBITMQ_LOG_BASE="$dir/log" RABBITMQ_ENABLED_PLUGINS_FILE="$dir/plugins" RABBITMQ_PID_FILE="$dir/pid" \
		"/usr/lib/rabbitmq/bin/$program" "$@"
}

start_rabbitmq() {
	folder rabbitmq rabbitmq
	boot_rabbitmq
}

boot_rabbitmq() { # with the data that is there
	local dir=$data/rabbitmq
	as rabbitmq sh -c 'umask 077 && echo backlog >"$0"' "$dir/.erlang.cookie"
	(cd / && rabbitmq rabbitmq-server -detached >/dev/null) && (cd / && rabbitmq rabbitmqctl --quiet wait --timeout 60 "$dir/pid" >/dev/null) ||
		die "RabbitMQ does not start: see $dir/log"
}

# rabbitmqctl starts a virtual machine of its own, which takes more than a second of a processor. What tests ask
# for most is called in the server, where Erlang's erl_call is there and the server is one of this script.
erl_calls() { # erl_calls COMMAND ARGUMENT ...: false if it has done nothing
	local erl call
	erl=$(ls /usr/lib/erlang/erts-*/bin/erl_call 2>/dev/null | tail -n 1)
	[ -n "$erl" ] || return
	case $* in
	*[\"\\]*) return 1 ;;
	"add_vhost "*) call="rabbit_vhost:add(<<\"$2\">>, <<\"tests\">>)" ;;
	"delete_vhost "*) call="rabbit_vhost:delete(<<\"$2\">>, <<\"tests\">>)" ;;
	"set_permissions --vhost "*) call="rabbit_auth_backend_internal:set_permissions(<<\"$4\">>, <<\"$3\">>, <<\"$5\">>, <<\"$6\">>, <<\"$7\">>, <<\"tests\">>)" ;;
	*) return 1 ;;
	esac
	[ "$(echo "$call." | "$erl" -e -n "backlog-$RABBITMQ_PORT@localhost" -c backlog 2>/dev/null)" = "{ok, ok}" ]
}

packages() { # packages COMMAND PACKAGE ...: installs what a command is missing of
	local missing=()
	while [ $# -gt 0 ]; do
		has "$1" || missing+=("$2")
		shift 2
	done
	[ ${#missing[@]} = 0 ] && return
	has apt-get || die "there is neither Docker nor Debian's apt-get; start PostgreSQL, MariaDB, Redis and RabbitMQ yourself, and name them in BACKLOG_TEST_POSTGRES, BACKLOG_TEST_MYSQL, BACKLOG_TEST_REDIS and BACKLOG_TEST_RABBITMQ"
	[ "$(id -u)" = 0 ] || die "run this first: sudo apt-get install ${missing[*]}"
	echo "installing ${missing[*]}"
	# The packages would start servers of their own, which do not let tests in.
	local policy=/usr/sbin/policy-rc.d ours=
	[ -e $policy ] || { printf '#!/bin/sh\nexit 101\n' >$policy && chmod 755 $policy && ours=yes; }
	local status=0
	{ apt-get update -qq && apt-get install -y -qq "${missing[@]}" >/dev/null; } || status=$?
	[ -z "$ours" ] || rm -f $policy
	[ $status = 0 ] || die "apt-get cannot install ${missing[*]}"
	pgbin=$(ls -d /usr/lib/postgresql/*/bin | sort -V | tail -n 1)
	PATH=$PATH:$pgbin
}

docker_runs() { has docker && docker compose version >/dev/null 2>&1 && docker info >/dev/null 2>&1; }

install() { # install NAME PORT COMMAND PACKAGE: what a server that does not run needs
	"$1_answers" || docker_runs || listens "$2" || packages "$3" "$4"
}

start() { # start NAME PORT
	local name=$1 port=$2
	if "${name}_answers"; then
		echo "$name: runs already, at 127.0.0.1:$port"
		return
	fi
	! listens "$port" || die "what listens at 127.0.0.1:$port does not let the tests in; choose another port, such as ${name^^}_PORT=$((port + 10000))"
	if docker_runs; then
		docker compose up -d --wait "$name"
	else
		"start_$name"
	fi
	echo "$name: started, at 127.0.0.1:$port"
}

stop() {
	! docker_runs || docker compose down
	if [ -e "$data/postgres/data/postmaster.pid" ]; then
		(cd / && as postgres pg_ctl -D "$data/postgres/data" -m fast -w stop >/dev/null) || true
	fi
	local pid
	for name in mariadb redis rabbitmq; do
		pid=$(cat "$data/$name/pid" 2>/dev/null) && kill "$pid" || continue
		while kill -0 "$pid" 2>/dev/null; do sleep 0.1; done
	done
	rm -rf "$data"
}

case ${1:-start} in
stop) stop ;;
rabbitmqctl) # with the arguments of this program
	if erl_calls "${@:3}"; then exit; fi
	if docker_runs; then docker compose exec -T rabbitmq "$@"; else cd / && rabbitmq "$@"; fi
	;;
node) # a RabbitMQ of its own at RABBITMQ_PORT, with the data under TMPDIR that it had, if any
	if [ -e "$data/rabbitmq" ]; then boot_rabbitmq; else start_rabbitmq; fi
	;;
start)
	install postgres "$POSTGRES_PORT" initdb postgresql
	install mariadb "$MARIADB_PORT" mariadbd mariadb-server
	install redis "$REDIS_PORT" redis-server redis-server
	install rabbitmq "$RABBITMQ_PORT" rabbitmqctl rabbitmq-server
	started=() # side by side: RabbitMQ takes as long as all others
	for server in "rabbitmq $RABBITMQ_PORT" "postgres $POSTGRES_PORT" "mariadb $MARIADB_PORT" "redis $REDIS_PORT"; do
		# shellcheck disable=SC2086
		if docker_runs; then start $server; else start $server & started+=($!); fi
	done
	for pid in "${started[@]}"; do wait "$pid"; done
	if [ "$POSTGRES_PORT" != 5432 ]; then
		echo "export BACKLOG_TEST_POSTGRES=postgres://postgres@127.0.0.1:$POSTGRES_PORT/postgres"
	fi
	if [ "$MARIADB_PORT" != 3306 ]; then
		echo "export BACKLOG_TEST_MYSQL=mysql://root@127.0.0.1:$MARIADB_PORT/test"
	fi
	if [ "$REDIS_PORT" != 6379 ]; then
		echo "export BACKLOG_TEST_REDIS=redis://127.0.0.1:$REDIS_PORT/0"
	fi
	if [ "$RABBITMQ_PORT" != 5672 ]; then
		echo "export BACKLOG_TEST_RABBITMQ=amqp://guest:guest@127.0.0.1:$RABBITMQ_PORT/"
	fi
	;;
*) die "usage: $0 [start|stop|node|rabbitmqctl ARGUMENT ...]" ;;
esac
