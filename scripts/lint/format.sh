#!/usr/bin/env bash
# Checks that clang-format changes no C++ file. Releases differ in details: 14 (Debian 12) decides,
# others only warn.
set -euo pipefail
. scripts/lint/files.sh

program=clang-format
if command -v clang-format-14 >/dev/null; then program=clang-format-14; fi
version=$("$program" --version | sed 's/.*version \([0-9]*\).*/\1/')
mapfile -t files < <(list_files '*.h' '*.cc' '*.cu' '*.cuh')
if complaints=$("$program" --dry-run --Werror "${files[@]}" 2>&1); then
  exit 0
fi
# One line a file is enough: the remedy is the same for all lines.
sed -n 's/^\([^ ]*:[0-9]*\):[0-9]*: error: .*/\1: not formatted/p' <<<"$complaints" | sort -t: -k1,1 -u
if [ "$version" != 14 ]; then
  echo "note: clang-format $version is not the deciding release 14; not counted as a failure"
  exit 0
fi
echo "run: $program -i FILE"
exit 1
