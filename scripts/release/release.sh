#!/usr/bin/env bash
# Makes the files of a release in dist/, of the commit that is checked out: the sources, the wheels,
# the Debian packages, what they consist of (SPDX), and the checksums of all. --source-only leaves
# out what compiles. With ROOT=FOLDER, the packages are tested in an empty Debian, as root.
# Usage: scripts/release/release.sh [--source-only]
set -euo pipefail
cd "$(dirname "$0")/../.."

fail() {
  echo "error: $*" >&2
  exit 2
}
source_only=
case "${1:-}" in
  --source-only) source_only=1 ;;
  "") ;;
  *) fail "unknown argument $1; usage: scripts/release/release.sh [--source-only]" ;;
esac

changed=$(git status --porcelain)
[ -z "$changed" ] || fail "the tree is not that of a commit; commit or remove:"$'\n'"$changed"
scripts/lint/version.sh || fail "the files disagree about the version: scripts/lint/version.sh"
version=$(sed -nE 's/^project\(Crema VERSION ([0-9.]+) .*/\1/p' CMakeLists.txt)
entry=$(grep -m1 -F "## [$version] - " CHANGELOG.md)
tag=$(git tag --points-at HEAD 'v*')
[ -z "$tag" ] || [ "$tag" = "v$version" ] || fail "this commit has the tag $tag; CMakeLists.txt has version $version"
if [ -n "$tag" ] || [ -z "$source_only" ]; then
  [[ "$entry" =~ [0-9]{4}-[0-9]{2}-[0-9]{2}$ ]] || fail "CHANGELOG.md has no date: '$entry'"
fi
export SOURCE_DATE_EPOCH
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)

unpacked=$(mktemp -d)
trap 'status=$?; rm -rf "$unpacked"; [ "$status" = 0 ] || rm -rf dist' EXIT
rm -rf dist
mkdir dist
name=crema-$version
git -c tar.umask=0022 archive --format=tar --prefix="$name/" HEAD | gzip -n -9 >"dist/$name.tar.gz"
if [ -z "$source_only" ]; then
  make wheel
  make deb
  cp build/wheels/crema-"$version"-*.whl build/wheels/crema_caffe-"$version"-*.whl dist
  cp build/deb/*_"$version"_*.deb dist
  [ -z "${ROOT:-}" ] || make wheel-check deb-check ROOT="$ROOT"
fi
scripts/release/sbom.py dist/* --output "dist/$name.spdx.json"
(cd dist && sha256sum -- * >SHA256SUMS && sha256sum --quiet -c SHA256SUMS)

# The sources are the files of the commit, and no others.
tar -xzf "dist/$name.tar.gz" -C "$unpacked"
diff <(git ls-tree -r -z --name-only HEAD | tr '\0' '\n' | LC_ALL=C sort) \
  <(cd "$unpacked/$name" && find . ! -type d | sed 's|^\./||' | LC_ALL=C sort) ||
  fail "dist/$name.tar.gz has other files than the commit"
ls -l dist
