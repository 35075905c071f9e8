#!/usr/bin/env bash
# Checks that every line of the C++ in the pages that show how to extend Crema is in
# tests/examples/, which is compiled.
set -euo pipefail
. scripts/lint/files.sh

mapfile -t sources < <(list_files 'tests/examples/*.cc' 'tests/examples/*.cu' 'tests/examples/*.h')
mapfile -t docs < <(list_files docs/adding_a_layer.md 'docs/development/*.md')
awk '
  FILENAME !~ /\.md$/ { line = $0; gsub(/[ \t]+/, " ", line); known[line] = 1; next }
  /^```(cpp|cuda)/ { code = 1; next }
  /^```/ { code = 0; next }
  code {
    line = $0; gsub(/[ \t]+/, " ", line)
    if (line != "" && !(line in known)) {
      printf "%s:%d: not in tests/examples/: %s\n", FILENAME, FNR, $0
      failed = 1
    }
  }
  END { exit failed }
' "${sources[@]}" "${docs[@]}"
