#!/bin/sh
# record.sh TRACES PROGRAM ARGS... lets a program that uses entrace record into the folder TRACES. What an
# earlier one left that was killed is finished first.
set -eu
traces=$1
shift
entrace recover "$traces" 2>/dev/null || true # at the first time there is no folder
OTEL_EXPORTER_ENTRACE_PATH=$traces/ exec "$@"
