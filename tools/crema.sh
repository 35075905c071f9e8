#!/bin/sh
# The front of all commands: `crema train …` runs libexec/crema/train with the rest of the arguments.
set -eu

here=$(dirname "$(readlink -f "$0")")
commands=$here/../libexec/crema
[ -d "$commands" ] || commands=$here # a build folder has them side by side

# One line a command, after the name of its group; the ones that this build left out are not shown.
list() {
  group=
  while read -r name text; do
    if [ "$name" = group ]; then
      group=$text
    elif [ -x "$commands/$name" ]; then
      if [ -n "$group" ]; then printf '\n%s:\n' "$group"; fi
      group=
      printf '  %-18s  %s\n' "$name" "$text"
    fi
  done <<'LIST'
group Train
new                 a job from your own pictures: net, solver, lists
train               learn the weights of a net
check               look for what would stop train
evaluate            measure weights on the test data
sweep               train with several values of fields, and rank the results
lr_find             search for a learning rate
plot_lr             the learning rate of every iteration
report              curves and results of runs as one page
group Data
convert_imageset    image files and class folders to LMDB, LevelDB or tar
convert_mnist       MNIST's IDX files
convert_cifar       CIFAR-10 and CIFAR-100
convert_boxes       PASCAL VOC, COCO and YOLO, with their boxes
create_label_map    the label map of a detector from class names
get_image_size      the sizes of images, for the output of a detector
convert_db          LMDB, LevelDB, tar and HDF5, one to the other
check_data          what is in data sets, and what is wrong
compute_image_mean  mean image and channel means
make_digits         draw a data set of digits
group Look
summary             what a net costs, a layer a line
draw                a net as a picture
show_batch          a picture of what a net sees
profile             how long each layer of a net takes
devices             the processor and GPUs of this machine
extract_features    values of blobs for each sample, as .npy, .h5 or LMDB
replay              compare a net with recorded numbers
group Deploy
zoo                 trained models: list, get, verify, train
deploy              classify, detect, segment, run, bench, verify, export
serve               answer requests over HTTP and gRPC
group Convert
import              ONNX models and weights of PyTorch
weights             list, rename, copy, average, fold, convert, compare
upgrade             old nets, solvers and weights in the present format
LIST
}

usage() {
  echo "usage: crema COMMAND [arguments]"
  echo "       crema COMMAND --help"
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
    /^  / { d = distance(tolower(word), $1); if (d < least) { least = d; name = $1 } }
    END { if (least <= 2 || least * 2 <= length(name)) print name }'
}

# Caffe's names, and an older one.
renamed() {
  case $1 in
    time) echo profile ;;
    test) echo evaluate ;;
    device_query) echo devices ;;
    convert_voc) echo convert_boxes ;;
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
    if [ $# -gt 1 ]; then
      shift
      first=$(renamed "$1")
      case $first in
        */* | .* | crema) ;;
        *) if [ -x "$commands/$first" ]; then exec "$commands/$first" --help; fi ;;
      esac
    else
      usage
      exit 0
    fi
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
  -*) near="train $1" ;;
  classify | detect | segment | run | bench | verify | export) near="deploy $1" ;;
  predict | infer | inference) near="deploy classify" ;;
  eval | val | validate) near=evaluate ;;
  fit) near=train ;;
  *) near=$(nearest "$1") ;;
esac
echo "crema: unknown command '$1'${near:+ (did you mean '$near'?)}; crema --help lists all" >&2
exit 2
