#!/usr/bin/env bash
# Runs the checks that need a GPU, in the folder that gather.sh made, and writes gpu_check.md and a log of each to OUT.
#   run.sh OUT            exit status 1 when a check failed; $GPU_CHECK_SECONDS (520) bound all of them
#   run.sh --programs     prints the names of the programs that it needs
#   run.sh --skip WHY     reports each check as skipped
set -uo pipefail

# name | turn | processes | seconds at most | text that its output must contain (a check that does nothing must fail) | command
# Checks of one turn run side by side. Several processes share the tests of one program (gtest's shards).
# Failed API calls of libraries that they handle are ignored: memcheck checks memory.
checks() {
  local memcheck="compute-sanitizer --tool memcheck --report-api-errors no --error-exitcode 9"
  local racecheck="compute-sanitizer --tool racecheck --error-exitcode 9"
  local each="*KeepsTheContract"
  cat <<END
devices|1|1|60|^GPU 0: |bin/devices
layers|2|6|120|PASSED  . [1-9]|bin/layers_test --gtest_filter=$each*
random cases|3|8|120|PASSED  . [1-9]|env CREMA_SECONDS_A_TYPE=40 bin/implementations_test
sessions, solvers, resume|4|4|100|PASSED  . [1-9]|bin/gpu_test
recorded cases|4|2|60|PASSED  . [1-9]|bin/conformance_test --gtest_filter=Gpu*.*
memcheck of layers|5|8|150|ERROR SUMMARY: 0 errors|$memcheck bin/layers_test --gtest_filter=$each*
memcheck of solvers|5|1|120|ERROR SUMMARY: 0 errors|$memcheck bin/gpu_test --gtest_filter=GpuUpdate*:GpuSolver.AResumed*
racecheck|5|2|120|RACECHECK SUMMARY: 0 hazards|$racecheck bin/gpu_test --gtest_filter=GpuUpdate*:*CarriedState*:DetectionImplementations*
racecheck of layers|5|4|120|RACECHECK SUMMARY: 0 hazards|$racecheck bin/layers_test --gtest_filter=$each/*Norm*:$each/*Loss*:$each/Softmax*:$each/Att*:$each/Red*
benchmark|6|1|260|^. resnet50 . train . bf16 . 256 . [0-9]|env LD_LIBRARY_PATH=${theirs:-} python3 bench/race.py --runner=bin/gpu_race --devices=bin/devices --models=models --out=${out:-OUT}/benchmark.md --seconds=@SECONDS
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
end=$(($(date +%s) + ${GPU_CHECK_SECONDS:-520}))

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
export PATH="$PATH:/usr/local/cuda/bin:/usr/local/cuda/compute-sanitizer"
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

# run LOG PROCESSES SECONDS COMMAND...: its status, or the first of the processes that is not 0.
run() {
  local log=$1 processes=$2 seconds=$3 i status=0 own running=()
  shift 3
  if [ "$processes" = 1 ]; then
    timeout -k 5 "$seconds" "$@" >"$log" 2>&1 </dev/null
    return
  fi
  for ((i = 0; i < processes; ++i)); do
    GTEST_TOTAL_SHARDS=$processes GTEST_SHARD_INDEX=$i OMP_WAIT_POLICY=passive \
      timeout -k 5 "$seconds" "$@" >"$log.$i" 2>&1 </dev/null &
    running[i]=$!
  done
  for ((i = 0; i < processes; ++i)); do
    wait "${running[i]}"
    own=$?
    if [ $status = 0 ]; then status=$own; fi
    cat "$log.$i" >>"$log"
    rm "$log.$i"
  done
  return $status
}

# check ROW NAME PROCESSES SECONDS MUST COMMAND: its row of the table into the file ROW.
check() {
  local row=$1 name=$2 processes=$3 most=$4 must=$5 command=$6 log result status left begin last
  log="$out/${name//[ ,]/_}.log"
  : >"$log"
  begin=$(date +%s)
  left=$((end - begin))
  if [ "$most" -gt $left ]; then most=$left; fi
  command=${command/@SECONDS/${BENCHMARK_SECONDS:-$((most - 45))}}
  status=0
  if [[ $command == compute-sanitizer* ]] && ! command -v compute-sanitizer >/dev/null; then
    result="skipped: no compute-sanitizer"
  elif [ "$most" -lt 5 ]; then
    status=1
    result="not run: no time was left"
  else
    # shellcheck disable=SC2086
    run "$log" "$processes" "$most" $command
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
  fi
  last=$({ grep '^\[  FAILED  \]' "$log" || grep . "$log"; } | tail -1 | tr '|' '/' | cut -c1-120)
  echo "| $name | $result | $(($(date +%s) - begin)) | $last |" >"$row"
  echo "gpu-check: $name: $result"
  return $status
}

failed=0
started=() # of this turn: process, then file of the row
rows=$(mktemp -d)
end_turn() {
  local i
  for ((i = 0; i < ${#started[@]}; i += 2)); do
    wait "${started[i]}" || failed=1
    cat "${started[i + 1]}" >>"$out/gpu_check.md"
  done
  started=()
}
number=0
before=
set -f # names of tests are no names of files
while IFS='|' read -r name turn processes most must command; do
  if [ "$turn" != "$before" ]; then end_turn; fi
  before=$turn
  number=$((number + 1))
  check "$rows/$number" "$name" "$processes" "$most" "$must" "$command" &
  started+=($! "$rows/$number")
done < <(checks)
end_turn
rm -r "$rows"
exit $failed
