#!/usr/bin/env bash
# Records the rates of the data path, as ratios in one run. Usage:
#   bench/data.sh BUILD_DIR PHOTOS [PYTHON]
# PHOTOS is a folder of JPEG files, or a tar file of them, each at least 224 x 224. PYTHON is one with
# torch, torchvision, pillow and opencv-python-headless; without it PyTorch is left out.
# Appends to bench/results/data.md.
set -euo pipefail
cd "$(dirname "$0")/.."
bin=$(cd "$1/bin" && pwd)
photos=$2
python=${3:-}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

if [ ! -e "$photos" ]; then
  echo "data: skipped, there are no photographs at $photos" >&2
  exit 0
fi
if [ -f "$photos" ]; then
  mkdir "$work/photos"
  tar -xf "$photos" -C "$work/photos"
  photos=$work/photos
fi

# median_of FILE: of the numbers in it, one a line
median_of() { sort -g "$1" | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'; }

# peer NAME KIND: five turns of each, five seconds a turn
peer() {
  local turn ours theirs
  rm -f "$work"/rates.*
  for turn in 1 2 3 4 5; do
    ours=$("$bin/data_rates" "$photos" "$work" images 2 5)
    theirs=$("$python" bench/data_loader.py "$photos" "$2" 2 5)
    echo "$ours" >>"$work/rates.ours"
    echo "$theirs" >>"$work/rates.theirs"
    awk -v a="$ours" -v b="$theirs" 'BEGIN { print a / b }' >>"$work/rates.ratio"
  done
  echo "| (d) photographs in files, two workers | the whole pipeline | $(median_of "$work/rates.ours") images/s | PyTorch's DataLoader, $1 | $(median_of "$work/rates.theirs") images/s | $(awk -v r="$(median_of "$work/rates.ratio")" 'BEGIN { printf "%.2f", r }') | $(sort -g "$work/rates.ratio" | sed -n '2p;4p' | awk '{ printf "%s%.2f", NR == 1 ? "" : " to ", $1 }') |"
}

# LeNet's training: the share of its time that it waits for the LMDB that it reads.
waiting() {
  "$bin/make_digits" --count=5000 --seed=1 "$work/digits" >/dev/null
  sed -e "s#build/data/mnist_[a-z]*_lmdb#$work/digits#" models/lenet/train_val.prototxt \
    >"$work/net.prototxt"
  printf '%s\n' "net: '$work/net.prototxt' test_iter: 1 test_interval: 100000 base_lr: 0.01" \
    "lr_policy: 'fixed' momentum: 0.9 max_iter: 1500 display: 100 snapshot_prefix: '$work/lenet'" \
    >"$work/solver.prototxt"
  "$bin/train" --solver="$work/solver.prototxt" --run="$work/run" --quiet >/dev/null 2>&1
  awk -F, 'NR == 1 { for (i = 1; i <= NF; ++i) column[$i] = i; next }
    $column["kind"] == "train" && $column["iteration"] > 0 { print 100 * $column["wait_share"] }' \
    "$work/run/metrics.csv" >"$work/shares"
  echo
  echo "(f) LeNet (models/lenet, batches of 64, $(nproc) threads) waits for its LMDB for" \
    "$(median_of "$work/shares") % of its time (median of $(wc -l <"$work/shares") times 100" \
    "iterations; worst $(sort -g "$work/shares" | tail -n 1) %)."
}

results=bench/results/data.md
mkdir -p bench/results
if [ ! -e "$results" ]; then
  cat >"$results" <<'HEAD'
# Rates of the data path

`bench/data.sh`. The two of a row take turns in one run, 15 times (those with PyTorch, which are
programs of their own, five times). Rates are medians; the ratio is the median of those of the turns,
beside its quartiles. (a) to (c) and OpenCV's loop count the processor time of their one thread, (e),
(f) and PyTorch the time on the clock. The page cache is warm. Photographs are of ImageNet: 40, most of
them 500 x 375, 110 KB, without reduced colours.
HEAD
fi
{
  echo
  echo "$(date +%F), a machine of $(nproc) cores; load $(cut -d' ' -f1 /proc/loadavg) at the start:"
  echo
  echo "| what | Crema | rate | against | rate | ratio | quartiles |"
  echo "|---|---|---|---|---|---|---|"
  "$bin/data_rates" "$photos" "$work"
  if [ -n "$python" ]; then
    peer torchvision torchvision
    peer OpenCV opencv
  fi
  waiting
} | tee -a "$results"
