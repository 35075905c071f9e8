#!/usr/bin/env bash
# nvcc compiles GPU code, where the toolkit is: .cu files, and .cc files with parts for CUDA. Links
# nothing. (The tests compile the same files as C++: docs/development/gpu.md.) LINT_SHARE: see files.sh.
set -euo pipefail
. scripts/lint/files.sh
. scripts/lint/compile_database.sh
if ! command -v nvcc >/dev/null; then
  echo "no nvcc: GPU code is not compiled"
  exit 0
fi
prepare_lint_build
objects=$(mktemp -d)
trap 'rm -r "$objects"' EXIT
# The warnings of cmake/flags.cmake. Not optimized: that takes longer and finds no more.
flags="-std=c++20 -arch=sm_90 -O0 -Xcicc -O0 -Xptxas -O0 -Xcompiler=-Wall,-fopenmp -Werror=all-warnings
  --extended-lambda --expt-relaxed-constexpr -DCREMA_HAVE_CUDA -Isrc -isystem $lint_build/proto"
skip='cudnn[a-z0-9_]*\.cu$'
if echo '#include <cudnn_graph.h>' | nvcc -E -x cu - >/dev/null 2>&1; then
  flags="$flags -DCREMA_HAVE_CUDNN"
  skip='^$'
fi
export flags objects
{
  list_files 'src/*.cu'
  list_files 'src/*.cc' | xargs grep -l '^#if.*CREMA_HAVE_CUDA'
} | grep -vE "$skip" | share_of_lint |
  xargs -P "${LINT_JOBS:-$(nproc)}" -I{} \
    bash -c 'nvcc $flags -c "$1" -o "$objects/${1//\//_}.o" || { echo "$1:1: nvcc fails"; exit 1; }' _ {}
