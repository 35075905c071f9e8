#!/bin/sh
# Caffe's programs, by the name that this is called by: caffe, convert_imageset, ... Translates
# Caffe's flags and arguments to those of Crema's commands (docs/caffe.md). --as_caffe gives these
# the exit codes and lines of Caffe.
# shellcheck disable=SC2154 # flag_NAME: set by their names
set -eu

program=$(basename "$0")
program=${program%.bin}
here=$(dirname "$(readlink -f "$0")")
commands=$here/../bin # in a build
[ -x "$commands/train" ] || commands=$here/@CREMA_COMMANDS_FROM_CAFFE@

# Ends with an exit code of Caffe: 1 for wrong flags, 134 (SIGABRT) for other errors.
fail() {
  code=$1
  shift
  echo "error: $*" >&2
  exit "$code"
}

# Flags of the program, by type. Those of gflags and glog itself are accepted by all.
bools="logtostderr alsologtostderr colorlogtostderr log_prefix"
ints="minloglevel stderrthreshold v logbufsecs max_log_size"
strings="log_dir vmodule"
has_flags=yes
case $program in
  caffe)
    ints="$ints level iterations"
    strings="$strings gpu solver model phase stage snapshot weights sigint_effect sighup_effect"
    ;;
  convert_imageset)
    bools="$bools gray shuffle check_size encoded"
    ints="$ints resize_width resize_height"
    strings="$strings backend encode_type"
    ;;
  compute_image_mean | convert_mnist_data) strings="$strings backend" ;;
  create_label_map)
    bools="$bools include_background"
    strings="$strings delimiter"
    ;;
  get_image_size) strings="$strings name_id_file" ;;
  *) has_flags= ;;
esac
for name in $bools; do eval "flag_$name=false"; done
for name in $ints; do eval "flag_$name=0"; done
for name in $strings; do eval "flag_$name="; done
flag_backend=lmdb
flag_delimiter=' '
flag_iterations=50
flag_sigint_effect=stop
flag_sighup_effect=snapshot

has_word() { # WORD LIST
  case " $2 " in *" $1 "*) return 0 ;; esac
  return 1
}

# Sets flag_NAME. Requires: NAME is in one of the lists.
set_flag() {
  if has_word "$1" "$ints"; then
    digits=${2#-}
    case $digits in '' | *[!0-9]* | ???????????*) fail 1 "--$1 takes a whole number, not '$2'" ;; esac
    [ "$digits" -le 2147483647 ] || fail 1 "--$1 takes a number of 32 bits, not $2"
  elif has_word "$1" "$bools"; then
    case $2 in
      true | t | yes | y | 1) set -- "$1" true ;;
      false | f | no | n | 0) set -- "$1" false ;;
      *) fail 1 "--$1 takes true or false, not '$2'" ;;
    esac
  fi
  eval "flag_$1=\$2"
}

# Takes the flags out of the arguments, which are walked through once: those that stay go to the end.
left=$#
while [ -n "$has_flags" ] && [ "$left" -gt 0 ]; do
  word=$1
  shift
  left=$((left - 1))
  case $word in
    --)
      while [ "$left" -gt 0 ]; do
        set -- "$@" "$1"
        shift
        left=$((left - 1))
      done
      ;;
    -?*)
      name=${word#-}
      name=${name#-}
      value=${name#*=}
      has_value=
      case $name in *=*) has_value=yes ;; esac
      name=${name%%=*}
      if [ "$name" = help ]; then set -- --help && left=0 && break; fi
      if [ "$name" = version ]; then set -- --version && left=0 && break; fi
      if has_word "$name" "$bools"; then
        [ -n "$has_value" ] || value=true
      elif has_word "${name#no}" "$bools" && [ -z "$has_value" ]; then
        name=${name#no}
        value=false
      elif has_word "$name" "$ints $strings"; then
        if [ -z "$has_value" ]; then
          [ "$left" -gt 0 ] || fail 1 "flag --$name needs a value"
          value=$1
          shift
          left=$((left - 1))
        fi
      else
        fail 1 "unknown flag '$word'; $program --help shows those that there are"
      fi
      set_flag "$name" "$value"
      ;;
    *) set -- "$@" "$word" ;;
  esac
done

# Runs a command in place of this shell.
run() {
  name=$1
  shift
  [ -x "$commands/$name" ] || fail 134 "this build of Crema has no command '$name'"
  [ "$flag_minloglevel" -le 0 ] || set -- --quiet "$@"
  [ -z "$flag_log_dir" ] || set -- --log_dir="$flag_log_dir" "$@"
  exec "$commands/$name" "$@"
}

require() { # FLAG VALUE
  [ -n "$2" ] || fail 134 "--$1 is required by $program $action"
}

# Prints how to call the program, and ends.
usage() {
  case $program in
    caffe)
      cat <<'TEXT'
usage: caffe COMMAND [flags]

  train         --solver=FILE [--weights=FILES | --snapshot=STATE] [--gpu=IDS|all] [--level=N]
                [--stage=NAMES] [--sigint_effect=stop] [--sighup_effect=snapshot]
  test          --model=NET --weights=FILES [--iterations=50] [--gpu=ID] [--level=N] [--stage=NAMES]
  time          --model=NET [--phase=TRAIN|TEST] [--iterations=50] [--gpu=ID] [--level=N] [--stage=NAMES]
  device_query  [--gpu=IDS|all]

Caffe's command, run by Crema: share/doc/crema/caffe.md.
TEXT
      ;;
    convert_imageset)
      echo "usage: convert_imageset [--gray] [--shuffle] [--backend=lmdb|leveldb] [--resize_width=N]"
      echo "       [--resize_height=N] [--check_size] [--encoded] [--encode_type=TYPE] ROOTFOLDER/ LISTFILE DB"
      ;;
    compute_image_mean) echo "usage: compute_image_mean [--backend=lmdb] DB [OUTPUT]" ;;
    extract_features)
      echo "usage: extract_features WEIGHTS NET BLOB[,BLOB] DATASET[,DATASET] BATCHES lmdb|leveldb [CPU|GPU] [ID]"
      ;;
    upgrade_*) echo "usage: $program IN OUT" ;;
    create_label_map)
      echo "usage: create_label_map [--include_background] [--delimiter=CHARACTERS] MAPFILE OUTFILE"
      ;;
    get_image_size) echo "usage: get_image_size [--name_id_file=FILE] ROOTFOLDER/ LISTFILE OUTFILE" ;;
    convert_cifar_data) echo "usage: convert_cifar_data INPUT_FOLDER OUTPUT_FOLDER lmdb|leveldb" ;;
    *) echo "usage: $program IMAGES LABELS DB" ;;
  esac
  exit "$1"
}

case ${1:-} in
  --help | -help | -h) usage 1 ;; # the exit code of gflags
  --version)
    echo "$program version 1.0.0 (Crema @PROJECT_VERSION@)"
    exit 0
    ;;
esac

caffe() {
  [ $# = 1 ] || usage 0
  action=$1
  case $action in
    train)
      require solver "$flag_solver"
      run train --as_caffe --solver="$flag_solver" --weights="$flag_weights" \
        --snapshot="$flag_snapshot" --gpu="$flag_gpu" --level="$flag_level" --stage="$flag_stage" \
        --sigint_effect="$flag_sigint_effect" --sighup_effect="$flag_sighup_effect"
      ;;
    test | time)
      require model "$flag_model"
      [ "$flag_iterations" -gt 0 ] || fail 134 "--iterations is $flag_iterations, expected 1 or more"
      set -- --as_caffe --model="$flag_model" --iterations="$flag_iterations" --gpu="$flag_gpu" \
        --level="$flag_level" --stage="$flag_stage"
      if [ "$action" = test ]; then
        require weights "$flag_weights"
        run evaluate "$@" --weights="$flag_weights"
      fi
      case $flag_phase in
        '' | TRAIN | TEST) ;;
        *) fail 134 "--phase: '$flag_phase' is not TRAIN or TEST" ;;
      esac
      # The peak of the machine, which Caffe does not print, is not measured.
      run profile "$@" --phase="${flag_phase:-TRAIN}" --warmup=1 --peak_gflops=1 --peak_gbs=1
      ;;
    device_query)
      ids=$(echo "$flag_gpu" | tr ',' ' ')
      set -f # no pathnames
      # shellcheck disable=SC2086 # a word for each GPU
      run devices --as_caffe --nomeasure -- $ids
      ;;
    *) fail 134 "unknown action '$action'; there are device_query, test, time, train" ;;
  esac
}

case $program in
  caffe) caffe "$@" ;;
  convert_imageset)
    [ $# -ge 3 ] || usage 1 >&2
    # As in Caffe, one of the sizes does nothing, and images that cannot be read are left out.
    if [ "$flag_resize_width" -le 0 ] || [ "$flag_resize_height" -le 0 ]; then
      flag_resize_width=0 flag_resize_height=0
    fi
    run convert_imageset --as_caffe --on_bad=skip --gray="$flag_gray" --shuffle="$flag_shuffle" \
      --backend="$flag_backend" --resize_width="$flag_resize_width" \
      --resize_height="$flag_resize_height" --check_size="$flag_check_size" \
      --encoded="$flag_encoded" --encode_type="$flag_encode_type" -- "$1" "$2" "$3"
    ;;
  compute_image_mean)
    case $# in 1 | 2) ;; *) usage 1 >&2 ;; esac
    run compute_image_mean --as_caffe --backend="$flag_backend" -- "$@"
    ;;
  extract_features)
    [ $# -ge 6 ] || usage 1 >&2
    run extract_features --as_caffe -- "$@"
    ;;
  upgrade_net_proto_text | upgrade_net_proto_binary | upgrade_solver_proto_text)
    [ $# = 2 ] || usage 1 >&2
    [ ! "$1" -ef "$2" ] || run upgrade --in_place -- "$1"
    run upgrade -o "$2" -- "$1"
    ;;
  convert_mnist_data)
    [ $# = 3 ] || usage 1 >&2
    run convert_mnist --as_caffe --backend="$flag_backend" -- "$@"
    ;;
  convert_mnist_siamese_data)
    [ $# = 3 ] || usage 1 >&2
    run convert_mnist --as_caffe --pairs --backend=leveldb -- "$@"
    ;;
  convert_cifar_data)
    [ $# = 3 ] || usage 1 >&2
    run convert_cifar --as_caffe -- "$@"
    ;;
  create_label_map)
    [ $# -ge 2 ] || usage 1 >&2
    run create_label_map --as_caffe --include_background="$flag_include_background" \
      --delimiter="$flag_delimiter" -- "$1" "$2"
    ;;
  get_image_size)
    [ $# -ge 3 ] || usage 1 >&2
    run get_image_size --as_caffe --name_id_file="$flag_name_id_file" -- "$1" "$2" "$3"
    ;;
  train_net | finetune_net) fail 134 "$program is of old Caffe: use caffe train --solver=FILE" ;;
  test_net) fail 134 "$program is of old Caffe: use caffe test --model=NET --weights=FILE" ;;
  net_speed_benchmark) fail 134 "$program is of old Caffe: use caffe time --model=NET" ;;
  device_query) fail 134 "$program is of old Caffe: use caffe device_query --gpu=ID" ;;
  *) fail 134 "no program of Caffe is called '$program'; caffe.md lists those that there are" ;;
esac
