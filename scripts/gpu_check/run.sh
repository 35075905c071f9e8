#!/usr/bin/env bash
# Runs the checks that need a GPU, in the folder that gather.sh made, and writes gpu_check.md and a log of each to OUT.
#   run.sh OUT            exit status 1 when a check failed
#   run.sh --programs     what it needs, by name
#   run.sh --skip WHY     says of each check that it is skipped
set -uo pipefail

# name | seconds at most | what its output must have, so that nothing passes that did nothing | command
checks() {
  cat <<END
devices|60|^GPU 0: |bin/devices
layers|120|PASSED  . [1-9]|bin/layers_test --gtest_filter=*KeepsTheContract*
random cases|120|PASSED  . [1-9]|bin/rows_test
sessions, solvers, resume|90|PASSED  . [1-9]|bin/gpu_test
recorded cases|60|PASSED  . [1-9]|bin/conformance_test --gtest_filter=Gpu*.*
memcheck of layers|150|ERROR SUMMARY: 0 errors|compute-sanitizer --tool memcheck --error-exitcode 9 bin/layers_test --gtest_filter=*KeepsTheContract*
memcheck of solvers|60|ERROR SUMMARY: 0 errors|compute-sanitizer --tool memcheck --error-exitcode 9 bin/gpu_test --gtest_filter=GpuUpdate*:GpuSolver.AResumed*
racecheck|60|RACECHECK SUMMARY: 0 hazards|compute-sanitizer --tool racecheck --error-exitcode 9 bin/gpu_test --gtest_filter=GpuUpdate*:*CarriedState*:DetectionRows*
benchmark|260|^. resnet50 . train . bf16 . 256 . [0-9]|env LD_LIBRARY_PATH=${theirs:-} python3 bench/race.py --runner=bin/gpu_race --devices=bin/devices --models=models --out=${out:-OUT}/benchmark.md --seconds=${BENCHMARK_SECONDS:-200}
END
}

programs() { checks | grep -oE 'bin/[a-z_]+' | cut -d/ -f2 | sort -u; }

skip_all() {
  checks | cut -d'|' -f1 | while read -r name; do echo "gpu-check: $name: skipped ($1)"; done
}

case ${1:-} in
  --programs) programs; exit ;;
  --skip) skip_all "$2"; exit ;;
  '') echo "usage: run.sh OUT" >&2; exit 2 ;;
esac

mkdir -p "$1" || exit 2
out=$(cd "$1" && pwd) || exit 2
rm -f "$out/gpu_check.md"
cd "$(dirname "$0")" || exit 2
if ! nvidia-smi -L >/dev/null 2>&1; then
  skip_all "there is no GPU here"
  exit 0
fi

# CUDA's own libraries: of a toolkit, or of Python packages.
cuda_folders() {
  ls -d /usr/local/cuda/lib64 /usr/local/cuda/lib 2>/dev/null
  python3 - <<'END' 2>/dev/null
import glob, site, sys
for folder in {*site.getsitepackages(), *sys.path}:
    print(*glob.glob(folder + "/nvidia/*/lib"), sep="\n")
END
}
theirs=${LD_LIBRARY_PATH:-} # PyTorch brings libraries of its own
LD_LIBRARY_PATH="$PWD/lib:$(cuda_folders | grep . | paste -sd:)${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
export LD_LIBRARY_PATH
export CREMA_LIBRARY_PATH="$LD_LIBRARY_PATH" # for what the benchmark starts
export CREMA_REQUIRE_GPU=1  # tests fail instead of turning to the stand-in
export CREMA_CONFORMANCE="$PWD/conformance"
chmod +x bin/* 2>/dev/null

{
  echo "# Checks on a GPU"
  echo
  echo "- date: $(date -u +%Y-%m-%d)"
  echo "- version: $(cat version)"
  nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader | head -1 |
    sed 's/^/- device, driver, memory: /'
  echo
  echo "| check | result | seconds | last line |"
  echo "|---|---|---|---|"
} >"$out/gpu_check.md"

failed=0
while IFS='|' read -r name most must command; do
  log="$out/${name//[ ,]/_}.log"
  begin=$(date +%s)
  if [[ $command == compute-sanitizer* ]] && ! command -v compute-sanitizer >/dev/null; then
    result="skipped: no compute-sanitizer"
    : >"$log"
  else
    # shellcheck disable=SC2086
    timeout "$most" $command >"$log" 2>&1 </dev/null
    status=$?
    result=passed
    case $status in
      0) if ! grep -qE "$must" "$log"; then
        status=1
        result="failed: its output has no '$must'"
      fi ;;
      77) # the check itself says why
        status=0
        result=$(grep . "$log" | tail -1) ;;
      124) result="not finished in $most s" ;;
      *) result="failed ($status)" ;;
    esac
    if [ $status != 0 ]; then failed=1; fi
  fi
  last=$(grep . "$log" | tail -1 | tr '|' '/' | cut -c1-120)
  echo "| $name | $result | $(($(date +%s) - begin)) | $last |" >>"$out/gpu_check.md"
  echo "gpu-check: $name: $result"
done < <(checks)
exit $failed
