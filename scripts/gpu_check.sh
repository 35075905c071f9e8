#!/usr/bin/env bash
# The checks that need a GPU.
#   scripts/gpu_check.sh [OUT]      builds, packs and runs them here; results go to OUT (bench/results/gpu)
#   scripts/gpu_check.sh pack FILE  builds and packs them for a machine with nothing but CUDA's libraries:
#                                   python3 -m tarfile -e FILE folder; folder/run.py OUT
# Without a GPU each check is skipped, and says so.
set -euo pipefail
if [ "${1:-}" = pack ]; then
  file=$(realpath -m "${2:?name the file to pack into}")
fi
cd "$(dirname "$0")/.."
here=scripts/gpu_check
build="build-gpu"
folder=$build/pack

build_and_gather() {
  cmake --preset gpu ${CMAKE_FLAGS:+$CMAKE_FLAGS}
  # shellcheck disable=SC2046
  cmake --build $build --parallel "${JOBS:-$(nproc)}" --target $($here/run.py --programs)
  $here/gather.sh $build $folder
}

if [ "${1:-}" = pack ]; then
  build_and_gather
  $here/pack.sh $folder "$file"
  exit
fi
out=${1:-bench/results/gpu}
if ! nvidia-smi -L >/dev/null 2>&1; then
  $here/run.py --skip="there is no GPU here"
  exit 0
fi
build_and_gather
$folder/run.py "$out"
