#!/usr/bin/env bash
# Checks that every line of the C++ in docs/adding_a_layer.md is in tests/examples/, which is
# compiled.
set -euo pipefail
. scripts/lint/files.sh
doc=docs/adding_a_layer.md
[ -f "$doc" ] || exit 0

mapfile -t sources < <(list_files 'tests/examples/*.cc' 'tests/examples/*.h')
awk '
  FILENAME != ARGV[ARGC - 1] { line = $0; gsub(/[ \t]+/, " ", line); known[line] = 1; next }
  /^```cpp/ { code = 1; next }
  /^```/ { code = 0; next }
  code {
    line = $0; gsub(/[ \t]+/, " ", line)
    if (line != "" && !(line in known)) {
      printf "%s:%d: not in tests/examples/: %s\n", FILENAME, FNR, $0
      failed = 1
    }
  }
  END { exit failed }
' "${sources[@]}" "$doc"
