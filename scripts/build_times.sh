#!/usr/bin/env bash
# Measures builds of a fresh clone of HEAD: `make demo`, the rest of the commands, the tests, an edit of
# one layer, a new field in the schema. Prints a Markdown table for bench/results/build.md.
# Usage: scripts/build_times.sh [FOLDER]   (FOLDER: where to clone; a temporary one by default)
#   CMAKE_FLAGS="-DCREMA_CUDA=ON"  with GPU code     SKIP_TESTS=1  without the tests
# Takes up to an hour. Nothing else should run on the machine.
set -euo pipefail
cd "$(dirname "$0")/.."
source=$PWD
folder=${1:-$(mktemp -d)}
log=$folder/log
mkdir -p "$folder"
git clone -q "$source" "$folder/crema"
cd "$folder/crema"
flags=${CMAKE_FLAGS:-}

processor=$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)
echo "$(git rev-parse --short HEAD), $(nproc) x $processor, $(c++ --version | head -n 1), flags: ${flags:-none}"
echo
echo "| what | wall | processor time |"
echo "|---|---|---|"
timed() { # what, command...
  local what=$1 times
  shift
  TIMEFORMAT='%R %U %S'
  if ! times=$( { time "$@" >>"$log" 2>&1; } 2>&1); then
    tail -n 30 "$log" >&2
    echo "error: $what failed; $log has all of it" >&2
    exit 1
  fi
  awk -v what="$what" '{
    printf "| %s | %d min %02d s | %d s |\n", what, int($1 / 60), int($1) % 60, $2 + $3 }' <<<"$times"
}
train() { cmake --build build --parallel "$(nproc)" --target train; }

timed "\`make demo\`" make demo CMAKE_FLAGS="$flags"
timed "the rest of \`make\`" make CMAKE_FLAGS="$flags"
layer=src/layers/shape/tile.cc
echo '// An edit.' >>"$layer"
timed "\`train\` after an edit of one layer's .cc" train
git checkout -q "$layer"
train >>"$log" 2>&1
sed -i 's/^message BlobShape {/&\n  optional int32 build_times_probe = 9999;/' proto/crema.proto
timed "\`train\` after a new field in crema.proto" train
git checkout -q proto/crema.proto
if [ -z "${SKIP_TESTS:-}" ]; then
  make CMAKE_FLAGS="$flags" >>"$log" 2>&1
  timed "\`make tests\`, the commands built" make tests CMAKE_FLAGS="$flags"
  timed "\`make test\`, all built" make test CMAKE_FLAGS="$flags"
fi
