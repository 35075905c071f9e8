#!/usr/bin/env bash
# Installs the Debian/Ubuntu packages that are missing, and only those; says which.
# Usage: scripts/install_packages.sh [--lint|--deb]   (--lint: also the formatter and the linter;
# --deb: also what makes Debian packages)
# Without anything to install it does not touch the network and needs no rights.
set -euo pipefail

# docs/dependencies.md says what each one is for.
required=(build-essential cmake ninja-build pkg-config protobuf-compiler libprotobuf-dev
  liblmdb-dev libgoogle-glog-dev libgflags-dev zlib1g-dev libre2-dev
  libgtest-dev libgmock-dev libopencv-core-dev libopencv-imgproc-dev libopencv-imgcodecs-dev)
# Without these packages the build leaves out the features that need them.
optional=(libjpeg-dev libopencv-videoio-dev libbenchmark-dev libhdf5-dev libleveldb-dev libdnnl-dev
  libexpat1-dev libminizip-dev libcurl4-openssl-dev libboost-dev libssl-dev rapidjson-dev prometheus-cpp-dev libgrpc++-dev
  protobuf-compiler-grpc libopenmpi-dev openmpi-bin libmpich-dev mpich valgrind mold)
lint=(clang-format clang-tidy)
deb=(debhelper dh-python chrpath dpkg-dev lintian)

installed() {
  [ "$(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

missing_of() {
  local package
  for package in "$@"; do
    installed "$package" || echo "$package"
  done
}

run_as_root() {
  if [ "$(id -u)" = 0 ]; then
    "$@"
  elif command -v sudo >/dev/null; then
    sudo "$@"
  else
    echo "error: installing packages needs root, and sudo is not there. As root, run:" >&2
    echo "  apt-get update && apt-get install --no-install-recommends ${to_install[*]}" >&2
    exit 1
  fi
}

[ "${1:-}" = --lint ] && required+=("${lint[@]}")
[ "${1:-}" = --deb ] && required+=("${deb[@]}")

if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
  echo "note: not a Debian or Ubuntu system; install yourself what docs/dependencies.md lists" >&2
  exit 0
fi

mapfile -t to_install < <(missing_of "${required[@]}" "${optional[@]}")
if [ "${#to_install[@]}" = 0 ]; then
  exit 0
fi

echo "Installing missing packages with apt: ${to_install[*]}"
export DEBIAN_FRONTEND=noninteractive
run_as_root env DEBIAN_FRONTEND=noninteractive apt-get update -qq

available=()
for package in "${to_install[@]}"; do
  if [[ " ${optional[*]} " == *" $package "* ]] &&
    [ -z "$(apt-cache --quiet=2 policy "$package" | grep 'Candidate: [^(]')" ]; then
    echo "note: this system has no package $package; going on without it"
  else
    available+=("$package")
  fi
done
if [ "${#available[@]}" != 0 ]; then
  run_as_root env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y -qq --no-install-recommends "${available[@]}" </dev/null
fi
