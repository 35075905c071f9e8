#!/bin/sh
# The front of all commands: `crema train …` runs libexec/crema/train with the rest of the arguments.
set -eu

here=$(dirname "$(readlink -f "$0")")
commands=$here/../libexec/crema
[ -d "$commands" ] || commands=$here # a build folder has them side by side

# One line a command; the ones that this build left out are not shown.
list() {
  while read -r name text; do
    if [ -x "$commands/$name" ]; then printf '  %-16s %s\n' "$name" "$text"; fi
  done <<'LIST'
new            a job from your own pictures: crema new --images=train/ -o job
train          learn the weights of a net: crema train --solver=solver.prototxt
check          look for what would stop train: crema check --solver=solver.prototxt
evaluate       measure weights on the test data: crema evaluate --model=net --weights=file
deploy         classify, detect, segment, run, bench, verify, export: crema deploy classify --model=m.crema image...
serve          answer requests over HTTP and gRPC: crema serve --repository=models/
report         curves and results of runs as one page: crema report run... -o report.html
convert_imageset  image files to LMDB: crema convert_imageset root/ list.txt output
convert_mnist  MNIST's IDX files to LMDB: crema convert_mnist images labels output
convert_cifar  CIFAR-10 and CIFAR-100 to LMDB: crema convert_cifar cifar-10-batches-bin output
convert_voc    PASCAL VOC with its boxes to LMDB: crema convert_voc VOCdevkit/VOC2007 output
convert_db     LMDB, LevelDB, tar and HDF5, one to the other: crema convert_db --backend=tar in out
check_data     what is in data sets, and what is wrong: crema check_data train_lmdb test_lmdb
compute_image_mean  mean image and channel means: crema compute_image_mean train_lmdb mean.binaryproto
show_batch     a picture of what a net sees: crema show_batch --model=net -o sheet.png
make_digits    draw a data set of digits: crema make_digits --count=1000 output
summary        what a net costs, a layer a line: crema summary --model=net
profile        how long each layer of a net takes: crema profile --model=net
devices        the processor and GPUs of this machine, and what they can do: crema devices
draw           a net as a picture: crema draw --model=net -o net.svg
extract_features  values of blobs for each sample, as .npy, .h5 or LMDB
import         ONNX models and weights of PyTorch: crema import m.onnx -o folder
upgrade        old nets, solvers and weights in the present format: crema upgrade net -o new
plot_lr        the learning rate of every iteration: crema plot_lr --solver=s --png=lr.png
lr_find        search for a learning rate: crema lr_find --solver=solver.prototxt
replay         compare a net with recorded numbers: crema replay --model=net --golden=file
LIST
}

usage() {
  echo "usage: crema COMMAND [arguments]     crema COMMAND --help says more"
  echo
  list
}

# The command at the smallest edit distance from the word, when it is near enough to be meant.
nearest() {
  list | awk -v word="$1" '
    function distance(a, b,   i, j, previous, current, cost) {
      for (j = 0; j <= length(b); ++j) previous[j] = j
      for (i = 1; i <= length(a); ++i) {
        current[0] = i
        for (j = 1; j <= length(b); ++j) {
          cost = previous[j - 1] + (substr(a, i, 1) != substr(b, j, 1))
          if (previous[j] + 1 < cost) cost = previous[j] + 1
          if (current[j - 1] + 1 < cost) cost = current[j - 1] + 1
          current[j] = cost
        }
        for (j = 0; j <= length(b); ++j) previous[j] = current[j]
      }
      return previous[length(b)]
    }
    BEGIN { least = 1000 }
    { d = distance(tolower(word), $1); if (d < least) { least = d; name = $1 } }
    END { if (least <= 2 || least * 2 <= length(name)) print name }'
}

# Caffe's names.
renamed() {
  case $1 in
    time) echo profile ;;
    test) echo evaluate ;;
    *) echo "$1" ;;
  esac
}
if [ $# -gt 0 ]; then
  first=$(renamed "$1")
  shift
  set -- "$first" "$@"
fi

case ${1:-help} in
  help | --help | -h)
    if [ $# -gt 1 ] && [ -x "$commands/$(renamed "$2")" ]; then
      exec "$commands/$(renamed "$2")" --help
    fi
    usage
    exit 0
    ;;
  --version | version)
    echo "crema @PROJECT_VERSION@"
    exit 0
    ;;
  */* | .* | crema) ;; # a name, never a path, and not this script again
  *)
    if [ -x "$commands/$1" ]; then
      program=$commands/$1
      shift
      exec "$program" "$@"
    fi
    ;;
esac

case $1 in
  classify | detect | segment | run | bench | verify | export) near="deploy $1" ;;
  *) near=$(nearest "$1") ;;
esac
echo "crema: unknown command '$1'${near:+ (did you mean '$near'?)}; crema --help lists all" >&2
exit 2
