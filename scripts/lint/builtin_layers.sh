#!/usr/bin/env bash
# The built-in list and the files of src/layers say the same: a layer that is written and not listed
# would silently not exist. (One that is listed and not written does not link.)
set -euo pipefail
export LC_ALL=C  # comm and sort must agree
. scripts/lint/files.sh
list=src/layers/builtin_layers.cc

defined() {  # extension, suffix
  list_files "src/layers/*/*.$1" | while IFS= read -r file; do
    sed -n "s/^void Register\([A-Za-z0-9]*\)$2(Registry& [a-z]*) {.*/\1/p" "$file"
  done | sort -u
}
# The rows of one list macro.
macro_rows() {
  awk -v start="#define $1(" 'index($0, start) == 1 { on = 1; next } on { print } on && !/\\$/ { on = 0 }' \
    "$list" | sed -n 's/^ *LAYER(\([A-Za-z0-9]*\)).*/\1/p'
}
defs=src/layers/builtin_layers.def
listed() { sed -n 's/^LAYER(\([A-Za-z0-9]*\)).*/\1/p' "$defs" | sort -u; }
compare() {  # what, defined, listed
  local name failed=0
  for name in $(comm -23 <(echo "$2") <(echo "$3")); do
    echo "$list:1: $1 $name is defined below src/layers and not listed"
    failed=1
  done
  for name in $(comm -13 <(echo "$2") <(echo "$3")); do
    echo "$list:1: $1 $name is listed, and no file below src/layers defines it"
    failed=1
  done
  return $failed
}

status=0
compare "layer" "$(defined cc '')" "$(listed)" ||
  status=1
compare "CUDA layer" "$(defined cu Cuda)" "$(macro_rows CREMA_BUILTIN_CUDA_LAYERS | sort -u)" ||
  status=1
exit $status
