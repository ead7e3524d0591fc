#!/bin/sh
# receive.sh TRACES FLAGS... takes OTLP from all programs of a machine, a file for each service, until it is
# told to end. The oldest files go when there are 10 GiB.
set -eu
traces=$1
shift
mkdir -p "$traces"
entrace recover "$traces"
exec entrace receive --otlp --dir "$traces" --keep-bytes 10GiB --max-bytes 0 "$@"
