#!/usr/bin/env bash
# Fetches CIFAR-10 (162 MB, binary version), checks its MD5 sum and unpacks it.
# Usage: data/cifar10/get.sh [--cifar100] [FOLDER]      FOLDER is this one unless given.
# Then:  convert_cifar FOLDER/cifar-10-batches-bin build/data
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../fetch.sh"

name=cifar-10-binary.tar.gz
sum=c32a1d4ab5d03f1284b67883e8d87530
unpacked=cifar-10-batches-bin
case ${1:-} in
  -h | --help) usage "$0"; exit 0 ;;
  --cifar100)
    name=cifar-100-binary.tar.gz
    sum=03b5dce01913d631647c71ecec9e9cb8
    unpacked=cifar-100-binary
    shift
    ;;
esac
mkdir -p "${1:-$here}"
cd "${1:-$here}"
fetch "$name" "$sum" "https://www.cs.toronto.edu/~kriz/$name"
tar -xzf "$name"
echo "the batches are in $PWD/$unpacked"
