#!/usr/bin/env bash
# Executes the notebooks of examples/notebooks with the build in BUILD (default: build), and writes
# their outputs into them; fails if a cell fails. Usage: scripts/notebooks.sh [PYTHON] [NOTEBOOK ...]
# PYTHON is the version that the module was built for. The tools go to a virtual environment outside
# of the tree.
set -euo pipefail
cd "$(dirname "$0")/.."

python=${1:-python3}
shift || true
build=$PWD/${BUILD:-build}
tools=${CREMA_NOTEBOOK_TOOLS:-${XDG_CACHE_HOME:-$HOME/.cache}/crema/notebook-tools}
[ -x "$tools/bin/python" ] || "$python" -m venv "$tools"
"$tools/bin/pip" install --quiet nbconvert ipykernel numpy matplotlib pillow

export PYTHONPATH=$build/python PATH=$build/bin:$PATH
export JUPYTER_PATH=$tools/share/jupyter JUPYTER_DATA_DIR=$build/jupyter IPYTHONDIR=$build/ipython
[ $# -gt 0 ] || set -- examples/notebooks/*.ipynb
for notebook in "$@"; do
  "$tools/bin/python" -m nbconvert --to notebook --execute --inplace --log-level=WARN \
    --ClearMetadataPreprocessor.enabled=True \
    --ClearMetadataPreprocessor.clear_notebook_metadata=False "$notebook"
  size=$(stat -c %s "$notebook")
  echo "$notebook: $((size / 1024)) KB"
  [ "$size" -lt 300000 ] || { echo "$notebook is larger than 300 KB" >&2; exit 1; }
done
