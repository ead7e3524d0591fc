#!/bin/sh
# Copies the traces of failed tests, which the output REPORT of go test -json names, to the folder DIR.
set -eu
report=$1 dir=$2
mkdir -p "$dir"
sed -n 's/.*"Action":"attr".*"Key":"entrace\.trace","Value":"\([^"\\]*\)".*/\1/p' "$report" | while IFS= read -r trace; do
  if [ -f "$trace" ]; then
    cp -- "$trace" "$dir/"
    echo "$trace"
  fi
done
