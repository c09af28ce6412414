#!/bin/sh
# Builds the program for each platform that docs/platforms.md names. Called by make
# platforms.
set -eu
go=$1
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
for platform in linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 freebsd/amd64 freebsd/arm64 windows/amd64; do
	# shellcheck disable=SC2086
	CGO_ENABLED=0 GOOS=${platform%/*} GOARCH=${platform#*/} $go build -trimpath -o "$out/backlog" .
	echo "$platform: $(($(wc -c <"$out/backlog") >> 20)) MiB"
done
