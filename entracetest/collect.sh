#!/bin/sh
# Copies the traces of failed tests, which the output REPORT of go test -json names, to the folder DIR, and writes a page of each
# beside it, which a browser opens without anything else. The command for that is built from the source that this script is of.
set -eu
report=$1 dir=$2
mkdir -p "$dir"
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
sed -n 's/.*"Action":"attr".*"Key":"entrace\.trace","Value":"\([^"\\]*\)".*/\1/p' "$report" >"$tmp/traces"
while IFS= read -r trace; do
  if [ -f "$trace" ]; then
    cp -- "$trace" "$dir/"
    echo "$trace"
  fi
done <"$tmp/traces"
[ -s "$tmp/traces" ] || exit 0
if (cd "$(dirname "$0")/.." && GOWORK=off GOFLAGS= go build -ldflags="-s -w" -o "$tmp/entrace" ./cmd/entrace); then
  while IFS= read -r trace; do
    [ ! -f "$trace" ] || "$tmp/entrace" export --force -o "$dir/$(basename -- "$trace").html" -- "$trace" >/dev/null || echo "no page of $trace" >&2
  done <"$tmp/traces"
fi
