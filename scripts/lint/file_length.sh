#!/usr/bin/env bash
# Checks that no file has more than 800 lines.
set -euo pipefail
. scripts/lint/files.sh

mapfile -t files < <(list_files '*.h' '*.cc' '*.cu' '*.cuh' '*.cmake' '*.sh')
awk '
  FNR == 1 && NR > 1 { judge() }
  { name = FILENAME; lines = FNR }
  function judge() {
    if (lines > 800) { printf "%s:%d: error: longer than 800 lines\n", name, lines; failed = 1 }
  }
  END { if (NR) judge(); exit failed }
' "${files[@]}"
