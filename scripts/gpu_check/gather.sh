#!/usr/bin/env bash
# gather.sh BUILD FOLDER: copies all that run.py needs, except for CUDA's libraries and the C
# library, to FOLDER.
set -euo pipefail
build=$1
folder=$2
here=$(dirname "$0")
rm -rf "$folder"
mkdir -p "$folder/bin" "$folder/lib"
cp "$here/run.py" "$folder"
for program in $("$here/run.py" --programs); do
  path=$build/bin/$program
  [ -e "$path" ] || path=$build/dev/$program # tests
  cp "$path" "$folder/bin"
  strip "$folder/bin/$program"
done
# Libraries that every machine with a GPU provides itself.
missing=$(ldd "$folder"/bin/* | grep 'not found' | grep -vE 'libcuda|libcublas' || true)
if [ -n "$missing" ]; then
  echo "error: $missing" >&2
  exit 1
fi
own='libresolv|libmvec|libc\.|libm\.|libdl\.|librt\.|libpthread\.|ld-linux|linux-vdso|libcuda|libcublas|libcudnn|libnccl|libnvrtc'
ldd "$folder"/bin/* | awk '/=> \// { print $3 }' | sort -u | grep -vE "$own" | while read -r library; do
  cp -L "$library" "$folder/lib"
  strip --strip-unneeded "$folder/lib/$(basename "$library")"
done
cp -r "$here/../../tests/conformance/cases" "$folder/conformance"
cp -r "$here/../../bench/gpu" "$folder/bench"
for net in resnet50 vgg16 googlenet alexnet mobilenet_v2 lenet cifar10_quick; do
  mkdir -p "$folder/models/$net"
  cp "$here/../../models/$net/"*.prototxt "$folder/models/$net"
done
git describe --always --dirty >"$folder/version" 2>/dev/null || echo unknown >"$folder/version"
