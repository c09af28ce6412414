#!/bin/sh
# A worker for `handler: {lines: [./worker.sh]}` without a JSON parser: see
# docs/lines.md. A request begins with the attempt's id, which needs no escapes,
# and a reply repeats it.
reply() { # reply OUTCOME [ERROR]: no quote or backslash in ERROR
	printf '{"attempt_id":"%s","outcome":"%s","error":"%s"}\n' "$attempt" "$1" "${2-}"
}

while IFS= read -r request; do
	attempt=${request#'{"attempt_id":"'}
	attempt=${attempt%%'"'*}
	case ${request#*'"record":'} in
	*'"city":"Nowhere"'*) reply error 'there is no such city' ;;
	*) reply success ;;
	esac
done
