#!/bin/sh
# archive.sh TRACES TARGET archives what is finished in the folder TRACES each EVERY seconds. When it is told
# to end, it finishes what killed programs have left, and archives once more.
set -u
stop=
trap 'stop=1' TERM INT
while [ -z "$stop" ]; do
  entrace archive "$1" --to "$2"
  sleep "${EVERY:-60}" &
  wait $!
done
entrace recover "$1"
entrace archive "$1" --to "$2"
