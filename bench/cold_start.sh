#!/usr/bin/env bash
# From the start of a process to the first answer: a model file against prototxt and caffemodel.
# Usage: bench/cold_start.sh [NET.prototxt [ROUNDS]]   (needs a build with bench: `make bench`)
# Prints medians of wall time in ms, of interleaved runs with the files in the page cache, and their
# ratio. Weights are drawn at random.
set -euo pipefail
cd "$(dirname "$0")/.."
net=${1:-models/mobilenet_v1/deploy.prototxt}
rounds=${2:-21}
program=${CREMA_COLD_START:-build/bin/cold_start}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

"$program" export "$net" "$folder/w.caffemodel" "$folder/m.crema"

milliseconds() {  # of a command
  local begin end
  begin=$(date +%s%N)
  "$@" >/dev/null
  end=$(date +%s%N)
  echo $(((end - begin) / 10000))
}

for _ in $(seq "$rounds"); do
  milliseconds "$program" net "$net" "$folder/w.caffemodel" >>"$folder/net"
  milliseconds "$program" file "$folder/m.crema" >>"$folder/file"
done

median() { sort -n "$1" | sed -n "$(((rounds + 1) / 2))p"; }
awk -v a="$(median "$folder/net")" -v b="$(median "$folder/file")" \
  'BEGIN { printf "prototxt + caffemodel %.1f ms, model file %.1f ms, ratio %.2f\n", a / 100, b / 100, b / a }'
