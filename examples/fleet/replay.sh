#!/bin/sh
# replay.sh TRACES QUERY ARGS... sends the traces that have something that QUERY selects to the system at
# OTEL_EXPORTER_OTLP_ENDPOINT, as of now, since many systems refuse what is old.
set -eu
traces=$1 query=$2
shift 2
exec entrace replay "$traces" -q "$query" --descendants --shift now --new-ids "$@"
