#!/bin/sh
# Kills a training run that snapshots each 5 iterations at random moments, again and again; after each
# kill every file under its final name must be whole, and the run must go on from the newest snapshot.
# Usage: kill_resume.sh BIN_FOLDER [KILLS]     (default 200)
set -eu
bin=$(cd "$1" && pwd)
kills=${2:-200}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
"$bin/make_digits" --count=500 --seed=1 digits_lmdb >/dev/null 2>&1
cat >net.prototxt <<'NET'
name: "soak"
layer { name: "data" type: "Data" top: "data" top: "label" transform_param { scale: 0.00390625 }
  data_param { source: "digits_lmdb" batch_size: 16 backend: LMDB } }
layer { name: "ip1" type: "InnerProduct" bottom: "data" top: "ip1"
  inner_product_param { num_output: 100 weight_filler { type: "xavier" } } }
layer { name: "relu1" type: "ReLU" bottom: "ip1" top: "ip1" }
layer { name: "drop" type: "Dropout" bottom: "ip1" top: "ip1" }
layer { name: "ip2" type: "InnerProduct" bottom: "ip1" top: "ip2"
  inner_product_param { num_output: 10 weight_filler { type: "xavier" } } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip2" bottom: "label" top: "loss" }
NET
solver() {
  cat <<SOLVER
net: "net.prototxt" base_lr: 0.01 lr_policy: "fixed" momentum: 0.9 max_iter: $1 random_seed: 1
snapshot: $2 snapshot_prefix: "$3" snapshot_after_train: true
SOLVER
}
solver 1000000 5 run >solver.prototxt

newest() { ls run_iter_*.solverstate 2>/dev/null | sed 's/.*_iter_\([0-9]*\)\..*/\1/' | sort -n | tail -1; }

# A file is whole when a run can start from it; max_iter is behind us, so nothing is trained.
check() {
  solver 0 0 unused | sed 's/snapshot_after_train: true/snapshot_after_train: false/' >check.prototxt
  for state in run_iter_*.solverstate; do
    [ -e "$state" ] || continue
    "$bin/train" --solver=check.prototxt --snapshot="$state" --quiet --threads=1 >check.log 2>&1 ||
      { echo "broken: $state"; cat check.log; exit 1; }
  done
}

i=0
resumed=0
while [ "$i" -lt "$kills" ]; do
  last=$(newest)
  if [ -n "$last" ]; then
    set -- --snapshot="run_iter_$last.solverstate"
    resumed=$((resumed + 1))
  else
    set --
  fi
  "$bin/train" --solver=solver.prototxt --quiet --threads=1 "$@" >run.log 2>&1 &
  pid=$!
  # 50 to 450 ms, from the kernel's random bytes.
  ms=$(($(od -An -N2 -tu2 /dev/urandom) % 400 + 50))
  sleep "$(printf '0.%03d' "$ms")"
  kill -9 "$pid" 2>/dev/null || { echo "the run ended by itself:"; cat run.log; exit 1; }
  wait "$pid" 2>/dev/null || true
  i=$((i + 1))
  check
  # Keep the newest three, so that a check stays short.
  ls run_iter_*.solverstate 2>/dev/null | sed 's/.*_iter_\([0-9]*\)\..*/\1/' | sort -n | head -n -3 |
    while read -r n; do rm -f "run_iter_$n.solverstate" "run_iter_$n.caffemodel"; done
done
last=$(newest)
solver "$last" 0 whole >whole.prototxt
"$bin/train" --solver=whole.prototxt --quiet --threads=1 >whole.log 2>&1
cmp "whole_iter_$last.caffemodel" "run_iter_$last.caffemodel"
echo "$kills kills, $resumed resumed, all files whole; iteration $last equals an uninterrupted run"
