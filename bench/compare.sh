#!/usr/bin/env bash
# Races Crema against what peers are installed. Usage:
#   bench/compare.sh BUILD_DIR [PYTHON] [--nets=lenet,...] [--batches=1,8] [--peers=...] ...
# PYTHON is one with peers, as bench/compare/setup.sh makes it; without it Crema runs alone. Writes
# bench/results/compare.md and compare.json; --help and bench/compare/README.md tell the rest.
set -euo pipefail
build=${1:?usage: bench/compare.sh BUILD_DIR [PYTHON] [--nets=...] [--peers=...] [--turns=...]}
shift
python=python3
case ${1:-} in
  '' | -*) ;;
  *) python=$1 && shift ;;
esac
exec "$python" "$(dirname "$0")/compare/compare.py" --build="$build" "$@"
