#!/usr/bin/env bash
# Runs every benchmark program of a build folder. Usage: scripts/bench.sh BUILD_DIR
set -euo pipefail
build=$1
found=0
for program in "$build"/bin/*_bench; do
  [ -x "$program" ] || continue
  found=1
  echo "== ${program##*/}"
  "$program"
done
if [ "$found" = 0 ]; then
  echo "bench: no program named *_bench in $build/bin"
fi
