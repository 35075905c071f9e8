#!/usr/bin/env bash
# Trains models/cifar10_quick or cifar10_full on CIFAR-10, or a part of it, as image files, and
# records accuracy, wall time and the curve of the tests.
# Usage: bench/cifar10.sh BUILD_DIR IMAGES MODEL [THREADS [WORK]]
# IMAGES holds train/<class>/*.jpg and test/<class>/*.jpg. Appends to bench/results/cifar10.md and
# writes bench/results/cifar10_curves/MODEL.csv and .html. The folder WORK is kept, and a run that was
# cut off goes on in it; the wall time is then that of the last start.
set -euo pipefail
cd "$(dirname "$0")/.."
bin=$(cd "$1/bin" && pwd)
images=$(cd "$2" && pwd)
model=$3
threads=${4:-2}
if [ -n "${5:-}" ]; then
  mkdir -p "$5"
  work=$(cd "$5" && pwd)
else
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
fi

# Classes are numbered in the order of their names.
for part in train test; do
  (cd "$images" && find "$part" -name '*.jpg' | LC_ALL=C sort |
    awk -F/ '!($2 in label) { label[$2] = count++ } { print $0, label[$2] }') >"$work/$part.txt"
done
test_images=$(wc -l <"$work/test.txt")
# Image files (B, G, R) in place of the LMDBs (R, G, B).
sed -e 's/type: "Data"/type: "ImageData"/; s/^  data_param/  image_data_param/' \
  -e 's/\(mean_value: 125.3\) \(mean_value: 123.0\) \(mean_value: 113.9\)/\3 \2 \1/' \
  -e "s#build/data/cifar10_\(train\|test\)_lmdb#$work/\1.txt#; s#backend: LMDB#root_folder: \"$images/\"#" \
  "models/$model/train_val.prototxt" >"$work/net.prototxt"
sed -e "s#^net:.*#net: \"$work/net.prototxt\"#; s#^snapshot_prefix:.*#snapshot_prefix: \"$work/net\"#" \
  -e "s#^test_iter:.*#test_iter: $((test_images / 100))#" \
  "models/$model/solver.prototxt" >"$work/solver.prototxt"

begin=$(date +%s.%N)
"$bin/train" --solver="$work/solver.prototxt" --threads="$threads" --quiet --run="$work/run" --resume=auto \
  >"$work/out" 2>"$work/log"
end=$(date +%s.%N)
seconds=$(awk -v a="$begin" -v b="$end" 'BEGIN { printf "%.0f", b - a }')

curves=bench/results/cifar10_curves
mkdir -p "$curves"
"$bin/report" "$work/run" -o "$curves/$model.html" --quiet >/dev/null
sed -i -e "s#$work/##g; s#$PWD/##g; s#$PWD#.#g" "$curves/$model.html"
awk -F, 'BEGIN { print "iteration,accuracy,loss" }
  $1 == "test" && $11 == "accuracy" { accuracy = $13 }
  $1 == "test" && $11 == "loss" { print $2 "," accuracy "," $13 }
' "$work/run/metrics.csv" >"$curves/$model.csv"
# The median rate, which occasional other load does not change.
rate=$(awk -F, '$1 == "train" && $8 > 0 { print $8 }' "$work/run/metrics.csv" | sort -g |
  awk '{ rate[NR] = $1 } END { printf "%.0f", rate[int((NR + 1) / 2)] }')
accuracy=$(tail -n 1 "$curves/$model.csv" | cut -d, -f2)
iterations=$(sed -n 's/^max_iter: //p' "models/$model/solver.prototxt")

results=bench/results/cifar10.md
if [ ! -e "$results" ]; then
  cat >"$results" <<'HEAD'
# CIFAR-10 nets, trained with the published settings

Whole runs of `train` (`bench/cifar10.sh`); the curve of the tests is in `cifar10_curves/`. Fewer
images than the 50,000 of the whole set give a lower accuracy than the published one (about 75 % for cifar10_quick, 81 % for cifar10_full).
Two-core AVX-512 machine.

| date | net | training images | test images | iterations | threads | wall s | images/s, median | accuracy |
|---|---|---|---|---|---|---|---|---|
HEAD
fi
echo "| $(date +%F) | $model | $(wc -l <"$work/train.txt") | $test_images | $iterations | $threads | $seconds | $rate | $(printf '%.4f' "$accuracy") |" |
  tee -a "$results"
