#!/bin/sh
# Copies the traces of failed tests, which the output REPORT of go test -json names, to the folder DIR, and writes a page of each
# beside it, which a browser opens without anything else. The command for that is built from the source that this script is of.
set -eu
report=$1 dir=$2
mkdir -p "$dir"
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
sed -n 's/.*"Action":"attr".*"Key":"entrace\.trace","Value":"\([^"\\]*\)".*/\1/p' "$report" | while IFS= read -r trace; do
  [ -f "$trace" ] || continue
  cp -- "$trace" "$dir/"
  echo "$trace"
  [ -x "$tmp/entrace" ] || (cd "$(dirname "$0")/.." && GOWORK=off go build -o "$tmp/entrace" ./cmd/entrace)
  "$tmp/entrace" export --force -o "$dir/$(basename -- "$trace").html" "$trace" >/dev/null || true # the trace is there
done
