#!/usr/bin/env bash
# A file that fits in the head: 400 lines is the budget, 800 an error.
set -euo pipefail
. scripts/lint/files.sh

mapfile -t files < <(list_files '*.h' '*.cc' '*.cu' '*.cuh' '*.cmake' '*.sh')
awk '
  FNR == 1 && NR > 1 { judge() }
  { name = FILENAME; lines = FNR }
  function judge() {
    if (lines > 800) { printf "%s:%d: error: longer than 800 lines\n", name, lines; failed = 1 }
    else if (lines > 400) printf "%s:%d: warning: longer than the budget of 400 lines\n", name, lines
  }
  END { if (NR) judge(); exit failed }
' "${files[@]}"
