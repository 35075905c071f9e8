#!/usr/bin/env bash
# Exports each net of models/, slim-320, and mnist-2016 if ../shared/models has it; copies the one file
# into an empty folder and uses it there by a process without environment. Its answers must be the bytes that
# the prototxt with its weights gives: of arrays (deploy run) and, where it takes pictures, of one.
# Usage: tests/soak/exports.sh [NET...]   (BIN=build/bin; compare_runner of -DCREMA_BUILD_BENCH=ON draws
# the weights). Prints Markdown; fails where anything differs.
set -euo pipefail
cd "$(dirname "$0")/../.."
bin=$(realpath "${BIN:-build/bin}")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
failed=0

# data:1,3,224,224;cont:1,1
input_shapes() {
  tr '\n' ' ' <"$1" | sed 's/layer *{/\n/g' | grep 'type: *"Input"' | while read -r layer; do
    printf '%s:%s;' "$(sed -E 's/.*top: *"([^"]*)".*/\1/' <<<"$layer")" \
      "$(grep -oE 'dim: *[0-9]+' <<<"$layer" | sed 's/dim: *//' | paste -sd,)"
  done | sed 's/;$//'
}

# A picture of 320 x 240 that every net can take.
write_picture() {
  { printf 'P6\n320 240\n255\n'
    awk 'BEGIN { for (i = 0; i < 320 * 240 * 3; ++i) printf "%c", 1 + (i * 7 + int(i / 960) * 5) % 126 }'
  } >"$1"
}

command_for() { # name
  case $1 in
    ssd300 | slim-320) echo detect ;;
    fcn8s) echo segment ;;
    char_rnn | lrcn | autoencoder | siamese) echo none ;;  # give no scores of one picture
    *) echo classify ;;
  esac
}

# answers FOLDER MODEL_FLAGS...: the output of a process without environment, in FOLDER
answers() {
  local where=$1
  shift
  (
    cd "$where"
    env -i "$bin/deploy" run "$@" --input="$folder/inputs.npz" --output="$where/run.npz" -q || exit
    case $task in
      classify) env -i "$bin/deploy" classify "$@" --npy="$where/scores.npy" "$picture" ;;
      detect) env -i "$bin/deploy" detect "$@" --npy="$where/boxes.npy" "$picture" ;;
      segment) env -i "$bin/deploy" segment "$@" --masks="$where/masks" "$picture" ;;
    esac
  ) >"$where/printed" 2>"$where/errors"
}

check() { # name, prototxt, weights ("": drawn), flags of the net...
  local name=$1 net=$2 weights=$3 result="the same bytes"
  shift 3
  rm -rf "$folder/plain" "$folder/alone" "$folder/inputs.npz"
  mkdir "$folder/plain" "$folder/alone"
  task=$(command_for "$name")
  if [ -z "$weights" ]; then
    weights=$folder/drawn.caffemodel
    "$bin/compare_runner" mode=weights model="$net" weights="$weights" shapes="$(input_shapes "$net")" \
      threads=2 >/dev/null
  fi
  net=$(realpath "$net") weights=$(realpath "$weights")
  "$bin/deploy" verify --model="$net" --weights="$weights" "$@" --record --samples=1 \
    --recording="$folder/inputs.npz" -q >/dev/null
  answers "$folder/plain" --model="$net" --weights="$weights" "$@" ||
    result="the prototxt: $(tail -1 "$folder/plain/errors")"
  "$bin/deploy" export --model="$net" --weights="$weights" "$@" -o "$folder/m.crema" -q >/dev/null
  mv "$folder/m.crema" "$folder/alone/m.crema"
  local bytes
  bytes=$(stat -c %s "$folder/alone/m.crema")
  answers "$folder/alone" --model=m.crema || result="the file: $(tail -1 "$folder/alone/errors")"
  rm "$folder/alone/m.crema"
  sed -i "s|$folder/[a-z]*/||g" "$folder"/*/printed
  if [ "$result" = "the same bytes" ]; then
    result=$({ diff -rq "$folder/plain" "$folder/alone" -x errors || true; } | head -1 | sed "s|$folder/||g")
    result=${result:-the same bytes}
  fi
  [ "$result" = "the same bytes" ] || failed=1
  local of
  of=$(cd "$folder/plain" && find . -type f ! -name errors -size +0 -printf '%P %s\n' | sort | paste -sd, | sed 's/,/, /g')
  echo "| $name | $((bytes / 1024)) | run, $task | $of | $result |"
}

nets=" $* "
wanted() { [ "$nets" = "  " ] || [[ $nets == *" $1 "* ]]; }

picture=$folder/picture.ppm
write_picture "$picture"
echo "| net | KiB | commands | files and their bytes | beside the prototxt |"
echo "|---|---|---|---|---|"
for net in models/*/deploy.prototxt; do
  name=$(basename "$(dirname "$net")")
  if wanted "$name"; then check "$name" "$net" ""; fi
done
shared=../shared/models/mnist-2016
if wanted mnist-2016 && [ -d "$shared" ]; then
  check mnist-2016 "$shared/deploy.prototxt" "$shared/snapshot_iter_28140.caffemodel"
fi
if wanted slim-320; then
  slim=tests/models/slim-320
  picture=$PWD/$slim/faces.jpg
  check slim-320 "$slim/slim-320.prototxt" "$slim/slim-320.caffemodel" \
    --tail="$PWD/tests/models/slim-320/tail.prototxt"
fi
exit $failed
