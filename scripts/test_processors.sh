#!/usr/bin/env bash
# Runs test programs as if the processor had fewer instructions (CREMA_CPU, src/core/processor.h).
# Usage: scripts/test_processors.sh [BUILD] [LEVEL...]
#   LEVEL: baseline avx2 avx512 avx512bf16 all; all of them by default. A level that the processor
#          lacks runs as the highest below it, and the table says so.
#   RUN_UNDER="qemu-x86_64 -cpu Westmere"  a command that runs the programs, such as an emulator
#   PROGRAMS="math plan"  only these folders of tests/; by default, those whose code depends on it
# Prints a Markdown table; exit code 1 if a test fails. The tests must be built (`make tests`).
set -uo pipefail
cd "$(dirname "$0")/.."
build=${1:-build}
[ $# -gt 0 ] && shift
levels=${*:-baseline avx2 avx512 avx512bf16 all}
programs=${PROGRAMS:-core math data graph plan implementations layers conformance runtime solvers
  quantization inference models onnx}
export OMP_WAIT_POLICY=passive
export CREMA_CONFORMANCE=${CREMA_CONFORMANCE:-$PWD/tests/conformance/cases}
# Instructions of each level, as /proc/cpuinfo names them.
has() { grep -qwE "$1" /proc/cpuinfo; }
lacks() {
  case $1 in
  avx2) has avx2 || echo "AVX2" ;;
  avx512) has avx512bw || echo "AVX-512" ;;
  avx512bf16) has avx512_bf16 || echo "AVX512-BF16" ;;
  all) has amx_bf16 || echo "AMX" ;;
  esac
}
# OpenBLAS chooses its own kernels.
blas() { case $1 in baseline) echo Nehalem ;; avx2) echo Haswell ;; esac }

log=$(mktemp -d)
trap 'rm -rf "$log"' EXIT
status=0
echo "| level | program | passed | skipped | failed |"
echo "|---|---|---|---|---|"
for level in $levels; do
  note=$(lacks "$level")
  for program in $programs; do
    if [ ! -x "$build/dev/${program}_test" ]; then
      echo "error: there is no $build/dev/${program}_test; build the tests (make tests)" >&2
      exit 2
    fi
    out=$log/$level-$program
    variable=$level
    [ "$level" = all ] && variable=
    (
      export CREMA_CPU=$variable
      core=$(blas "$level")
      [ -n "$core" ] && export OPENBLAS_CORETYPE=$core
      # shellcheck disable=SC2086
      ${RUN_UNDER:-} "$build/dev/${program}_test" --gtest_brief=1 >"$out" 2>&1
    )
    code=$?
    count() { sed -nE "s/^\[  $1 +\] ([0-9]+) tests?.*/\1/p" "$out" | tail -n 1; }
    passed=$(count PASSED) skipped=$(count SKIPPED) failed=$(grep -cE '^\[  FAILED  \] .*\(' "$out")
    [ "$code" = 0 ] || [ "$failed" != 0 ] || failed="exit code $code"
    if [ "${passed:-0}" = 0 ]; then code=1 failed="no test ran"; fi
    echo "| $level${note:+ (no $note)} | $program | ${passed:-0} | ${skipped:-0} | ${failed:-0} |"
    if [ "$code" != 0 ]; then
      status=1
      grep -E "^\[  FAILED  \]|Failure|error:" "$out" | head -n 20 >&2
    fi
  done
done
exit $status
