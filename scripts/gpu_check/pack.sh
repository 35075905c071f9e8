#!/usr/bin/env bash
# pack.sh FOLDER FILE: FOLDER as FILE (.tar.xz), which must not pass $MOST_MIB.
set -euo pipefail
most=${MOST_MIB:-64}
# The programs hold the same kernels: a dictionary larger than a program finds them again.
tar -C "$1" -cf - . | xz -T1 --lzma2=preset=6,dict=192MiB >"$2"
size=$(stat -c %s "$2")
echo "packed: $2, $((size / 1048576)) MiB of at most $most"
if [ "$size" -gt $((most * 1048576)) ]; then
  echo "error: the pack is larger than $most MiB" >&2
  exit 1
fi
