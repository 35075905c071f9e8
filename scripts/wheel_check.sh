#!/usr/bin/env bash
# Installs the wheels of build/wheels/ into an empty virtual environment and runs their tests there.
# Usage: scripts/wheel_check.sh [PYTHON]
set -euo pipefail
cd "$(dirname "$0")/.."

if find build/wheels -name '*.whl' -size +39062k | grep .; then
  echo "error: this wheel is larger than 40 MB: see bench/results/python.md, The wheels" >&2
  exit 1
fi
python=${1:-python3}
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
"$python" -m venv "$place/env"
"$place/env/bin/pip" install --quiet --no-index --no-deps --find-links build/wheels crema crema-caffe
"$place/env/bin/pip" install --quiet crema crema-caffe pytest # what they depend on
tests=$PWD/python/tests
cd "$place"
"$place/env/bin/python" -m pytest -q -p no:cacheprovider "$tests"
"$place/env/bin/crema" --version
