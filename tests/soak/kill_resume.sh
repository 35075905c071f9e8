#!/bin/sh
# Kills training runs of every solver type at random moments, again and again; each goes on with
# --resume=auto. After each kill every file under its final name must be whole, and when the run has
# come to its end, weights, averaged weights, state and best model must be those of a run that nobody
# killed, byte for byte.
# Usage: kill_resume.sh BIN_FOLDER [KILLS [TYPE...]]     (default: 200 of each type)
set -eu
bin=$(cd "$1" && pwd)
kills=${2:-200}
[ "$#" -lt 2 ] || shift
shift
types=${*:-SGD Nesterov AdaGrad RMSProp AdaDelta Adam AdamW LARS LAMB Lion}
work=$(mktemp -d)
pid=
trap '[ -z "$pid" ] || kill -9 "$pid" 2>/dev/null; rm -rf "$work"' EXIT
cd "$work"
"$bin/make_digits" --count=500 --seed=1 digits_lmdb >/dev/null 2>&1
"$bin/make_digits" --count=70 --seed=2 test_lmdb >/dev/null 2>&1
cat >net.prototxt <<'NET'
name: "soak"
layer { name: "data" type: "Data" top: "data" top: "label" transform_param { scale: 0.00390625 }
  data_param { source: "digits_lmdb" batch_size: 16 backend: LMDB } include { phase: TRAIN } }
layer { name: "data" type: "Data" top: "data" top: "label" transform_param { scale: 0.00390625 }
  data_param { source: "test_lmdb" batch_size: 16 backend: LMDB } include { phase: TEST } }
layer { name: "ip1" type: "InnerProduct" bottom: "data" top: "ip1"
  inner_product_param { num_output: 100 weight_filler { type: "xavier" } } }
layer { name: "relu1" type: "ReLU" bottom: "ip1" top: "ip1" }
layer { name: "drop" type: "Dropout" bottom: "ip1" top: "ip1" }
layer { name: "ip2" type: "InnerProduct" bottom: "ip1" top: "ip2"
  inner_product_param { num_output: 10 weight_filler { type: "xavier" } } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip2" bottom: "label" top: "loss" }
NET

# solver TYPE MAX_ITER PREFIX
solver() {
  case $1 in
    AdaGrad | RMSProp) fields='' ;;
    *) fields='momentum: 0.9' ;;
  esac
  cat <<SOLVER
net: "net.prototxt" type: "$1" base_lr: 0.001 lr_policy: "fixed" $fields max_iter: $2 random_seed: 1
snapshot: 5 snapshot_prefix: "$3" snapshot_keep: 3 test_interval: 50 average_loss: 20
ema_decay: 0.99 snapshot_best { } early_stop { patience: 100000 }
SOLVER
}

train() { "$bin/train" --solver="$1" --quiet --threads=1 --resume="$2"; }

# A file is intact if a run can start from it; max_iter has passed, so nothing is trained.
check() {
  solver "$1" 0 unused |
    sed 's/snapshot: 5//; s/snapshot_best { }/snapshot_after_train: false/' >check.prototxt
  for state in "run_$1"_iter_*.solverstate; do
    [ -e "$state" ] || continue
    train check.prototxt "$state" >check.log 2>&1 ||
      { echo "broken: $state"; cat check.log; exit 1; }
  done
}

newest() {
  ls "run_$1"_iter_*.solverstate 2>/dev/null | sed 's/.*_iter_\([0-9]*\)\..*/\1/' | sort -n | tail -1
}

soak() {
  solver "$1" 1000000 "run_$1" >run.prototxt
  i=0
  while [ "$i" -lt "$kills" ]; do
    # Not through a function: that would be a shell of its own, which dies in place of the run.
    "$bin/train" --solver=run.prototxt --quiet --threads=1 --resume=auto >run.log 2>&1 &
    pid=$!
    # 50 to 450 ms, from the kernel's random bytes.
    ms=$(($(od -An -N2 -tu2 /dev/urandom) % 400 + 50))
    sleep "$(printf '0.%03d' "$ms")"
    kill -9 "$pid" 2>/dev/null || { echo "the run ended by itself:"; cat run.log; exit 1; }
    wait "$pid" 2>/dev/null || true
    pid=
    i=$((i + 1))
    check "$1"
  done
  last=$(newest "$1")

  last=$((${last:-0} + 5))
  solver "$1" "$last" "run_$1" >run.prototxt
  train run.prototxt auto >run.log 2>&1
  solver "$1" "$last" "whole_$1" >whole.prototxt
  train whole.prototxt auto >whole.log 2>&1
  cmp "whole_$1_iter_$last.caffemodel" "run_$1_iter_$last.caffemodel"
  cmp "whole_$1_iter_${last}_ema.caffemodel" "run_$1_iter_${last}_ema.caffemodel"
  cmp "whole_$1_best.caffemodel" "run_$1_best.caffemodel"
  echo "$1: $kills kills, all files whole; iteration $last equals a run that nobody killed"
}

for type in $types; do soak "$type"; done
