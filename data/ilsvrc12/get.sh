#!/usr/bin/env bash
# Arranges ILSVRC 2012 (ImageNet) for convert_imageset.
# Usage: data/ilsvrc12/get.sh FOLDER
# The images may be fetched only by those who signed in at https://image-net.org: put
# ILSVRC2012_img_train.tar (138 GB) and ILSVRC2012_img_val.tar (6.3 GB) into FOLDER first. They are
# checked and unpacked to FOLDER/train/<class>/ and FOLDER/val/. The lists of Caffe (train.txt,
# val.txt, synset_words.txt; 17 MB) are fetched. Repeats nothing that an earlier call did.
# Then:  convert_imageset --resize_height=256 --resize_width=256 --shuffle \
#          FOLDER/train/ FOLDER/train.txt ilsvrc12_train_lmdb
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../fetch.sh"

case ${1:---help} in -h | --help) usage "$0"; exit 0 ;; esac
[ -d "$1" ] || fail "there is no folder '$1'"
cd "$1"

# No sum of this archive was ever published, so its contents are looked at.
lists_are_whole() {
  [ -f train.txt ] && [ -f val.txt ] && [ -f synset_words.txt ] &&
    [ "$(wc -l <train.txt)" = 1281167 ] && [ "$(wc -l <val.txt)" = 50000 ] &&
    [ "$(wc -l <synset_words.txt)" = 1000 ] &&
    awk '$NF !~ /^[0-9]+$/ || $NF > 999 { exit 1 }' train.txt val.txt
}

unpack_images() { # part, MD5 sum
  local archive=ILSVRC2012_img_$1.tar
  if [ -f "$1.done" ]; then
    echo "$1 is unpacked already"
    return
  fi
  [ -f "$archive" ] || fail "$PWD/$archive is missing: fetch it from https://image-net.org"
  echo "checking $archive"
  is_whole "$archive" "$2" || fail "$archive is damaged: its MD5 sum is not $2; fetch it again"
  mkdir -p "$1"
  tar -xf "$archive" -C "$1"
  local class
  for class in "$1"/n*.tar; do # of the training set: an archive for each class
    [ -f "$class" ] || continue
    mkdir -p "${class%.tar}"
    tar -xf "$class" -C "${class%.tar}"
    rm "$class"
  done
  touch "$1.done"
}

if ! lists_are_whole; then
  command -v curl >/dev/null || fail "curl is needed for the lists"
  archive=caffe_ilsvrc12.tar.gz
  curl --fail --location --connect-timeout 20 --continue-at - --output "$archive.part" \
    "http://dl.caffe.berkeleyvision.org/$archive" ||
    fail "cannot fetch $archive with the lists of Caffe: is there a network, a proxy? Or put" \
      "train.txt, val.txt and synset_words.txt into $PWD"
  tar -xzf "$archive.part" || { rm -f "$archive.part"; fail "$archive is damaged; call again"; }
  lists_are_whole || fail "the lists of $archive are not those of ILSVRC 2012"
  rm -f "$archive.part"
fi
unpack_images train 1d675b47d978889d74fa0da5fadfb00e
unpack_images val 29b22e2961454d5413ddabcf34fc5622
echo "ILSVRC 2012 is in $PWD"
