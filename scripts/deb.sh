#!/usr/bin/env bash
# Packs a build with -DCREMA_SHARED=ON as Debian packages into BUILD/deb/: packaging/debian says what
# goes where. The same build gives the same bytes. Checks them with lintian where that is installed.
# Usage: scripts/deb.sh BUILD
set -euo pipefail
cd "$(dirname "$0")/.."

build=$(cd "${1:?usage: scripts/deb.sh BUILD}" && pwd)
for tool in dpkg-deb dpkg-shlibdeps dh dh_python3 chrpath; do
  if ! command -v "$tool" >/dev/null; then
    echo "error: $tool is missing; packages are made by: apt-get install debhelper dh-python chrpath" \
      "dpkg-dev" >&2
    exit 2
  fi
done
version=$(sed -n 's/^project(Crema VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
if [ ! -e "$build/lib/libcrema.so.$version" ]; then
  echo "error: $build has no lib/libcrema.so.$version; configure it with -DCREMA_SHARED=ON and build" >&2
  exit 2
fi
without=()
[ -e "$build/bin/serve" ] || without+=(-Ncrema-serve)
[ -e "$build/lib/libcrema_images.so" ] || without+=(-Nlibcrema-images)
[ -e "$build/lib/libcrema_video.so" ] || without+=(-Nlibcrema-video)
# The module of the system's Python alone; it needs the stubs, which are built after it.
extension=$(/usr/bin/python3 -c 'import sysconfig; print(sysconfig.get_config_var("EXT_SUFFIX"))' || true)
[ -e "$build/python/crema/_core$extension" ] && [ -e "$build/python/crema/layers.pyi" ] ||
  without+=(-Npython3-crema)
[ "${#without[@]}" = 0 ] || echo "note: this build has no parts for: ${without[*]#-N}" >&2

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export SOURCE_DATE_EPOCH CREMA_BUILD=$build CREMA_SOURCE=$PWD CREMA_WITHOUT="${without[*]}"
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
mkdir "$work/crema"
cp -r packaging/debian "$work/crema"
cp packaging/crema-serve.default "$work/crema/debian"
mv "$work/crema/debian/libcrema.install" "$work/crema/debian/libcrema$version.install"
mv "$work/crema/debian/libcrema-deploy.install" "$work/crema/debian/libcrema-deploy${version%%.*}.install"
sed -i "s/@ABI@/$version/; s/@MAJOR@/${version%%.*}/" "$work/crema/debian/control"
cat >"$work/crema/debian/changelog" <<CHANGELOG
crema ($version) unstable; urgency=medium

  * Packed from commit $(git rev-parse --short HEAD).

 -- The Crema authors <maintainers@crema.invalid>  $(date -uRd "@$SOURCE_DATE_EPOCH")
CHANGELOG
if ! (cd "$work/crema" && dpkg-architecture -c debian/rules binary) >"$build/deb.log" 2>&1; then
  tail -n 20 "$build/deb.log" >&2
  echo "error: packing failed; all of it is in $build/deb.log" >&2
  exit 1
fi
rm -rf "$build/deb"
mkdir "$build/deb"
mv "$work"/*.deb "$build/deb"
ls -l "$build/deb"
if command -v lintian >/dev/null; then lintian --allow-root --fail-on error,warning "$build"/deb/*.deb; fi
