#!/usr/bin/env bash
# Checks that all files name the version of CMakeLists.txt, the only place where it is decided. The
# build, the Debian packages, --version and crema_version() take it from there; these files cannot.
set -euo pipefail

version=$(sed -nE 's/^project\(Crema VERSION ([0-9]+\.[0-9]+\.[0-9]+) .*/\1/p' CMakeLists.txt)
if [ -z "$version" ]; then
  echo "CMakeLists.txt:2: project() has no version MAJOR.MINOR.PATCH"
  exit 1
fi
status=0
names() {  # wanted, file, expression of sed -E with one group: each match must be `wanted`
  local wanted=$1 file=$2 expression=$3 line found count=0
  while IFS=: read -r line found; do
    count=$((count + 1))
    [ "$found" = "$wanted" ] && continue
    echo "$file:$line: is $found; it must be $wanted"
    status=1
  done < <(sed -nE "\\|$expression| { =; s|.*$expression.*|\\1|p; }" "$file" | paste -d: - -)
  if [ "$count" = 0 ]; then
    echo "$file:1: nothing matches '$expression': correct this file or scripts/lint/version.sh"
    status=1
  fi
}
number='([0-9]+\.[0-9]+\.[0-9]+)'
names "$version" pyproject.toml "^version = \"$number\""
names "$version" python/crema-caffe/pyproject.toml "^version = \"$number\""
names "$version" python/crema-caffe/pyproject.toml "\"crema==$number\""
names "$version" include/crema/crema.h "version of the library: \"$number\""
names "$version" include/crema/deploy.h "version of the library: \"$number\""
names "$version" docs/packages.md "\`libcrema$number\`"
names "${version%%.*}" docs/packages.md "\`libcrema-deploy([0-9]+)\`"

# The newest entry of CHANGELOG.md that has a version.
newest=$(grep -m1 -nE '^## \[[0-9]' CHANGELOG.md) || newest="1: none"
if [[ "$newest" != *"## [$version] - "* ]]; then
  echo "CHANGELOG.md:${newest%%:*}: the newest entry must begin with '## [$version] - '"
  status=1
fi

# Numbers of formats and interfaces that docs/versions.md states.
value() { sed -nE "s/.*$2[ =]+([0-9]+).*/\1/p" "$1" | head -n 1; }
names "$(value src/inference/crema_file.h kCremaFormat)" docs/versions.md 'formats 1 to ([0-9]+)'
names "$(value include/crema/plugin.h CREMA_PLUGIN_ABI)" docs/versions.md '`CREMA_PLUGIN_ABI`, now ([0-9]+)'
names "$(value include/crema/plugin.h CREMA_PLUGIN_ABI)" docs/plugins.md '`CREMA_PLUGIN_ABI`, now ([0-9]+)'
exit $status
