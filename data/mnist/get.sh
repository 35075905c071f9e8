#!/usr/bin/env bash
# Fetches the four files of MNIST (11 MB) and checks their MD5 sums.
# Usage: data/mnist/get.sh [FOLDER]      FOLDER is this one unless given.
# Then:  convert_mnist train-images-idx3-ubyte.gz train-labels-idx1-ubyte.gz mnist_train_lmdb
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../fetch.sh"

case ${1:-} in -h | --help) usage "$0"; exit 0 ;; esac
mkdir -p "${1:-$here}"
cd "${1:-$here}"

while read -r sum file; do
  fetch "$file" "$sum" "https://ossci-datasets.s3.amazonaws.com/mnist/$file" \
    "https://storage.googleapis.com/cvdf-datasets/mnist/$file"
done <<'FILES'
f68b3c2dcbeaaa9fbdd348bbdeb94873 train-images-idx3-ubyte.gz
d53e105ee54ea40749a09fcbcd1e9432 train-labels-idx1-ubyte.gz
9fb629c4189551a2d022fa330f9573f3 t10k-images-idx3-ubyte.gz
ec29112dd5afa0611ce80d1b7f02629c t10k-labels-idx1-ubyte.gz
FILES
echo "MNIST is in $PWD"
