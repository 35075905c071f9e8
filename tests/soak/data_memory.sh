#!/bin/sh
# A million small batches through the data path: the resident memory of `train` at 100,000 and at
# 1,000,000 must be the same, within a mebibyte. Some samples are bad, so that skipping and its log
# are covered.
# Usage: data_memory.sh BIN_FOLDER [BATCHES]
set -eu
bin=$(cd "$1" && pwd)
batches=${2:-1000000}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

# Sixteen images of 4 x 4 pixels, the last of which is none.
i=0
while [ "$i" -lt 16 ]; do
  { printf 'P6\n4 4\n255\n'; head -c 48 /dev/urandom; } >"$i.ppm"
  echo "$i.ppm $((i % 4))"
  i=$((i + 1))
done >list.txt
echo broken >15.ppm
cat >solver.prototxt <<NET
net_param {
  name: "soak"
  layer { name: "data" type: "ImageData" top: "data" top: "label"
    image_data_param { source: "list.txt" batch_size: 2 shuffle: true }
    transform_param { crop_size: 3 mirror: true scale: 0.004 }
    pipeline_param { threads: 2 on_bad_sample: SKIP } }
  layer { name: "ip" type: "InnerProduct" bottom: "data" top: "ip"
    inner_product_param { num_output: 4 } }
  layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip" bottom: "label" top: "loss" }
}
base_lr: 0 lr_policy: "fixed" max_iter: $batches display: 10000 snapshot_after_train: false
random_seed: 1
NET

"$bin/train" --solver=solver.prototxt --threads=1 >/dev/null 2>train.log &
pid=$!
resident() { sed -n 's/^VmRSS:[^0-9]*\([0-9]*\) kB/\1/p' "/proc/$pid/status" 2>/dev/null || true; }
iteration() { sed -n 's/.*Iteration \([0-9]*\).*/\1/p' train.log | tail -1; }

tenth=$((batches / 10))
early=''
late=''
while kill -0 "$pid" 2>/dev/null; do
  sleep 1
  at=$(iteration)
  now=$(resident)
  [ -n "$now" ] || continue
  [ -n "$early" ] || [ "${at:-0}" -lt "$tenth" ] || { early=$now; echo "$now KiB at $at"; }
  late=$now
  last=${at:-0}
done
wait "$pid" || { tail -5 train.log; exit 1; }
echo "$late KiB at $last; bad samples: $(grep -c 'bad sample' train.log)"
[ -n "$early" ] || { echo 'too short to measure'; exit 1; }
[ "$((late - early))" -le 1024 ] || { echo 'memory grows'; exit 1; }
