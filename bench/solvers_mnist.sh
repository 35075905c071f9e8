#!/usr/bin/env bash
# Trains LeNet on MNIST with each solver type, one run each with a rate that suits the
# type (not tuned), and records accuracy, time and curves.
# Usage: bench/solvers_mnist.sh BUILD_DIR MNIST_DIR [THREADS] [ITERATIONS]
# Writes bench/results/solvers_mnist.md and bench/results/solvers_mnist/ (one CSV a run, one page).
set -euo pipefail
cd "$(dirname "$0")/.."
bin=$(cd "$1/bin" && pwd)
mnist=$2
threads=${3:-2}
iterations=${4:-10000}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

"$bin/convert_mnist" "$mnist/train-images-idx3-ubyte.gz" "$mnist/train-labels-idx1-ubyte.gz" "$work/train" >/dev/null
"$bin/convert_mnist" "$mnist/t10k-images-idx3-ubyte.gz" "$mnist/t10k-labels-idx1-ubyte.gz" "$work/test" >/dev/null
sed -e "s#build/data/mnist_train_lmdb#$work/train#; s#build/data/mnist_test_lmdb#$work/test#" \
  models/lenet/train_val.prototxt >"$work/net.prototxt"

# The settings of Caffe's examples if there are some (SGD, AdaDelta, RMSProp, Adam).
inv='lr_policy: "inv" gamma: 0.0001 power: 0.75'
cosine='lr_policy: "cosine" warmup_iter: 200'
declare -A settings=(
  [SGD]="base_lr: 0.01 $inv momentum: 0.9 weight_decay: 0.0005"
  [Nesterov]="base_lr: 0.01 $inv momentum: 0.9 weight_decay: 0.0005"
  [AdaGrad]="base_lr: 0.01 lr_policy: \"fixed\" weight_decay: 0.0005"
  [RMSProp]="base_lr: 0.001 $inv rms_decay: 0.98 weight_decay: 0.0005"
  [AdaDelta]="base_lr: 1 lr_policy: \"fixed\" momentum: 0.95 delta: 1e-6 weight_decay: 0.0005"
  [Adam]="base_lr: 0.001 lr_policy: \"fixed\" momentum: 0.9 momentum2: 0.999 weight_decay: 0.0005"
  [AdamW]="base_lr: 0.001 $cosine weight_decay: 0.01"
  [LARS]="base_lr: 5 $cosine momentum: 0.9 weight_decay: 0.0005"
  [LAMB]="base_lr: 0.005 $cosine weight_decay: 0.01"
  [Lion]="base_lr: 0.0002 $cosine weight_decay: 0.05"
)
order=(SGD Nesterov AdaGrad RMSProp AdaDelta Adam AdamW LARS LAMB Lion)

folder=bench/results/solvers_mnist
mkdir -p "$folder"
results=bench/results/solvers_mnist.md
cat >"$results" <<HEAD
# LeNet on MNIST with each solver type

\`bench/solvers_mnist.sh\`: models/lenet, $iterations iterations of 64 images, random_seed 1, $threads threads of a
two-core AVX-512 machine, $(date +%F). One run a type with the settings shown, which were not tuned: this
shows that each type trains, not which one is best. Times are of whole runs with a test of 10,000 images
every 500 iterations. Curves: one CSV a run in \`solvers_mnist/\`, all of them in
\`solvers_mnist/report.html\`.

| type | settings | accuracy at the end | best | wall s |
|---|---|---|---|---|
HEAD
runs=()
for type in "${order[@]}"; do
  cat >"$work/$type.prototxt" <<SOLVER
net: "$work/net.prototxt"
type: "$type"
${settings[$type]}
test_interval: 500
display: 100
max_iter: $iterations
random_seed: 1
snapshot_prefix: "$work/$type"
solver_mode: CPU
SOLVER
  begin=$(date +%s.%N)
  "$bin/train" --solver="$work/$type.prototxt" --threads="$threads" --quiet --run="$work/runs/$type" \
    >"$work/out" 2>"$work/log"
  end=$(date +%s.%N)
  awk -F, 'BEGIN { print "iteration,accuracy,loss" }
    $1 == "test" && $11 == "accuracy" { accuracy = $13 }
    $1 == "test" && $11 == "loss" { print $2 "," accuracy "," $13 }
  ' "$work/runs/$type/metrics.csv" >"$folder/$type.csv"
  runs+=("$work/runs/$type")
  awk -F, -v type="$type" -v settings="${settings[$type]}" -v a="$begin" -v b="$end" '
    NR > 1 { last = $2; if ($2 > best) best = $2 }
    END { printf "| %s | `%s` | %.4f | %.4f | %.0f |\n", type, settings, last, best, b - a }
  ' "$folder/$type.csv" | tee -a "$results"
done
"$bin/report" "${runs[@]}" -o "$folder/report.html" --quiet >/dev/null
sed -i -e "s#$work/##g; s#$PWD/##g; s#$PWD#.#g" "$folder/report.html"
