#!/usr/bin/env bash
# Trains LeNet on digits that make_digits draws, evaluates it and classifies a few images.
# Usage: scripts/demo.sh BUILD_DIR      Fails when the accuracy is below 97 %.
set -euo pipefail

cd "$(dirname "$0")/.."
bin=$1/bin
net=models/lenet_digits
out=build/demo  # models/lenet_digits names it
train_count=20000
test_count=2000
least=0.97

say() { printf '\n== %s\n' "$*"; }
# Shows a command, then runs it.
run() {
  printf '$ %s\n' "$*"
  "$@"
}

# A database is first made under another name: one with the final name is complete.
make_database() {  # name, count, seed, further flags
  local target=$out/$1 recipe="count=$2 seed=$3"
  if [ -d "$target" ] && [ "$(cat "$target.recipe" 2>/dev/null)" = "$recipe" ]; then
    echo "$target is there already"
    return
  fi
  rm -rf "$target" "$target.new" "$target.recipe"
  run "$bin/make_digits" --count="$2" --seed="$3" "${@:4}" "$target.new"
  mv "$target.new" "$target"
  echo "$recipe" >"$target.recipe"
}

if [ ! -x "$bin/make_digits" ]; then
  echo "error: $bin/make_digits is not there; the demo draws its data with OpenCV, so the build" \
    "needs it (CREMA_OPENCV)" >&2
  exit 1
fi
mkdir -p "$out"
start=$SECONDS

say "Drawing the data: $train_count digits to train with, $test_count others to test with"
make_database digits_train_lmdb "$train_count" 1
make_database digits_test_lmdb "$test_count" 2 --png="$out/images" --png_count=8

say "Training LeNet"
run "$bin/train" --solver="$net/solver.prototxt"
weights=$(ls -t "$out"/lenet_digits_iter_*.caffemodel | head -n 1)

say "Evaluating $weights"
run "$bin/evaluate" --model="$net/train_val.prototxt" --weights="$weights" | tee "$out/evaluate.txt"
accuracy=$(sed -n 's/^.*accuracy[^0-9.]*\([0-9][0-9.]*\).*$/\1/p' "$out/evaluate.txt" | tail -n 1)

say "Classifying a few images"
echo "(the name of an image is its number and what it shows)"
run "$bin/deploy" classify --solver="$net/solver.prototxt" --top=1 "$out"/images/*.png

say "Done in $((SECONDS - start)) s"
if [ -z "$accuracy" ]; then
  echo "error: evaluate printed no accuracy" >&2
  exit 1
fi
awk -v a="$accuracy" -v least="$least" 'BEGIN {
  printf "accuracy on %s: %.2f %% (at least %.0f %% expected)\n", "the test digits", a * 100, least * 100
  exit !(a >= least)
}'
