#!/usr/bin/env bash
# Checks that the built-in lists agree with the files of src/layers: a layer that is not listed
# would silently not exist. (One that is listed and missing does not link.)
set -euo pipefail
export LC_ALL=C  # comm and sort must agree
. scripts/lint/files.sh

defined() {  # extension, suffix
  list_files "src/layers/*/*.$1" | while IFS= read -r file; do
    sed -n "s/^void Register\([A-Za-z0-9]*\)$2(Registry& [a-z]*) {.*/\1/p" "$file"
  done | sort -u
}
list=src/layers/builtin_layers.def
compare() {  # what, macro, defined
  local name failed=0 there=$3 listed
  listed=$(sed -n "s/^$2(\([A-Za-z0-9]*\)).*/\1/p" "$list" | sort -u)
  for name in $(comm -23 <(echo "$there") <(echo "$listed")); do
    echo "$list:1: $1 $name is defined below src/layers and not listed"
    failed=1
  done
  for name in $(comm -13 <(echo "$there") <(echo "$listed")); do
    echo "$list:1: $1 $name is listed, and no file below src/layers defines it"
    failed=1
  done
  return $failed
}

status=0
compare "layer" LAYER "$(defined cc '')" || status=1
compare "GPU layer" CUDA "$(defined cu Cuda)" || status=1
compare "cuDNN layer" CUDNN "$(defined cu Cudnn)" || status=1

# A library that a build may lack: its layers are listed only if the build has it.
guarded() { awk -v guard="$1" '$0 == "#ifdef " guard {on = 1} /^#endif/ {on = 0} on' "$list"; }
while read -r part pattern; do
  names=$(list_files "$pattern" | xargs sed -n 's/^void Register\([A-Za-z0-9]*\)(Registry& [a-z]*) {.*/\1/p')
  for name in $names; do
    if ! guarded "CREMA_HAVE_$part" | grep -qx "LAYER($name)"; then
      echo "$list:1: layer $name must be listed within #ifdef CREMA_HAVE_$part"
      status=1
    fi
  done
done <<'END'
OPENCV src/layers/*/*_opencv.cc
HDF5 src/layers/*/hdf5*.cc
END
exit $status
