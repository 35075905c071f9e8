#!/usr/bin/env bash
# Peak memory of training and of a forward pass, as `summary` predicts it and as it is measured.
# Usage: bench/memory.sh BUILD_DIR [THREADS]
# Writes bench/results/memory.md. Nets come from models/, fed by DummyData; two iterations are enough,
# since everything is allocated before the first. Measured is the peak resident size of the process
# (VmHWM, which is what GNU time reports).
set -euo pipefail
cd "$(dirname "$0")/.."
bin=$(cd "$1/bin" && pwd)
threads=${2:-2}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# The training net of models/$1 for batches of $2 images of $3 x $4 x $4; $5 is put in front.
dummy_net() {
  echo "$5"
  cat <<NET
layer { name: "data" type: "DummyData" top: "data" top: "label"
  dummy_data_param {
    data_filler { type: "constant" value: 0.5 } data_filler { type: "constant" value: 1 }
    shape { dim: $2 dim: $3 dim: $4 dim: $4 } shape { dim: $2 } } }
NET
  awk '
    function flush() { if (block !~ /type: "Data"/) printf "%s", block; block = "" }
    /^layer/ { flush() }
    { block = block $0 "\n" }
    END { flush() }' "models/$1/train_val.prototxt"
}

number() { sed -n "s/.*\"$1\": \([0-9]*\).*/\1/p" | head -1; }
peak_of() { # command...: KiB
  /usr/bin/env time -f "%M" -o "$work/rss" "$@" >"$work/out" 2>"$work/log" || {
    cat "$work/log" >&2
    exit 1
  }
  cat "$work/rss"
}

row() { # net, what, predicted bytes, measured KiB
  awk -v net="$1" -v what="$2" -v p="$3" -v m="$4" 'BEGIN {
    p /= 1048576; m /= 1024
    printf "| %s | %s | %.1f | %.1f | %+.1f %% |\n", net, what, p, m, 100 * (p - m) / m }'
}

# A Data layer of 64 images of 3 x 224 x 224, read ahead; the rest of the net is small.
data_net() {
  mkdir -p "$work/images"
  for i in $(seq 0 15); do
    { printf 'P6 256 256 255\n' && head -c $((256 * 256 * 3)) /dev/urandom; } >"$work/images/$i.ppm"
    echo "$i.ppm $((i % 10))"
  done >"$work/list.txt"
  "$bin/convert_imageset" "$work/images/" "$work/list.txt" "$work/set" >/dev/null 2>&1
  cat <<NET
layer { name: "data" type: "Data" top: "data" top: "label"
  data_param { source: "$work/set" batch_size: 64 } transform_param { crop_size: 224 } }
layer { name: "pool" type: "Pooling" bottom: "data" top: "pool"
  pooling_param { pool: AVE kernel_size: 16 stride: 16 } }
layer { name: "ip" type: "InnerProduct" bottom: "pool" top: "ip" inner_product_param { num_output: 10 } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip" bottom: "label" top: "loss" }
NET
}

train_row() { # net, what, batch, channels, size, head
  dummy_net "$1" "$3" "$4" "$5" "${6:-}" >"$work/net.prototxt"
  measure_training "$1" "$2, batch $3"
}

measure_training() { # net, what, iterations; the net is in $work/net.prototxt
  "$bin/summary" --model="$work/net.prototxt" --phase=train --threads="$threads" --json >"$work/json"
  local snapshot=false predicted measured
  [[ "$2" == *snapshot* ]] && snapshot=true
  cat >"$work/solver.prototxt" <<SOLVER
net: "$work/net.prototxt" base_lr: 1e-7 lr_policy: "fixed" momentum: 0.9 max_iter: ${3:-2} display: 0
snapshot_prefix: "$work/it" snapshot_after_train: $snapshot
SOLVER
  predicted=$(($(number training_peak_bytes <"$work/json") + $(number process_bytes <"$work/json")))
  [ $snapshot = true ] && predicted=$((predicted + $(number snapshot_bytes <"$work/json")))
  measured=$(peak_of "$bin/train" --solver="$work/solver.prototxt" --threads="$threads")
  row "$1" "$2" "$predicted" "$measured"
}

forward_row() { # net
  local net="models/$1/deploy.prototxt" measured
  "$bin/summary" --model="$net" --threads="$threads" --json >"$work/json"
  measured=$(peak_of "$bin/profile" --model="$net" --phase=TEST --threads="$threads" --iterations=1 \
    --warmup=0 --peak_gflops=1 --peak_gbs=1)
  row "$1" "forward, deploy.prototxt" \
    $(($(number inference_peak_bytes <"$work/json") + $(number process_bytes <"$work/json"))) "$measured"
}

{
  cat <<HEAD
# Peak memory, predicted and measured

\`bench/memory.sh\`, $(date +%F), $threads threads. Predicted: what \`summary\` prints for the peak of training or
inference plus "the process itself", which it measures on its own process. Measured: the peak resident
size of \`train\` (two iterations, DummyData, SGD with momentum) and of \`profile --phase=TEST\` (one pass).
The arena is resident from the start, touched by a layer or not: it is zeroed when it is allocated.

| net | run | predicted MiB | measured MiB | off by |
|---|---|---|---|---|
HEAD
  train_row lenet train 64 1 28
  train_row googlenet train 10 3 224
  train_row googlenet "train, memory_budget 150 MiB" 10 3 224 "memory_budget: 150"
  train_row resnet50 train 8 3 224
  train_row resnet50 "train, snapshot" 8 3 224
  train_row resnet50 "train, memory_budget 300 MiB" 8 3 224 "memory_budget: 300"
  data_net >"$work/net.prototxt"
  measure_training "Data layer, pooling" "train, batch 64, 5 batches in memory, 3 MiB of LMDB mapped" 12
  for net in lenet googlenet resnet50; do forward_row "$net"; done
} >"$work/memory.md"
mkdir -p bench/results
cp "$work/memory.md" bench/results/memory.md
cat bench/results/memory.md
