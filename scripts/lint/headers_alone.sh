#!/usr/bin/env bash
# Every header compiles alone: it includes what it uses. A header of src/ or tools/ with a .cc of its
# name is included there before anything else, so that clang_tidy.sh, which compiles that file without
# precompiled headers, shows it; the others are compiled here. LINT_SHARE: see files.sh.
set -euo pipefail
. scripts/lint/files.sh
. scripts/lint/compile_database.sh
prepare_lint_build

# Included, not compiled itself: #pragma once in a main file is a warning. -fopenmp as in the build.
check_header() {
  g++ -std=c++20 -fsyntax-only -Wall -Wextra -Wshadow -Werror -fopenmp -Isrc -Itools -Itests \
    $vendor_paths -x c++ - <<<"#include \"$1\"" || {
    echo "$1:1: does not compile alone"
    return 1
  }
}
export -f check_header
# Folders of the libraries and of the generated schema, as the build has them.
vendor_paths=$(grep -o -e '-isystem [^ "]*' "$lint_build/compile_commands.json" | sort -u | tr '\n' ' ')
export vendor_paths
# If the libraries of the server are missing, it is not in the build.
skip='^$'
grep -q '/src/server/' "$lint_build/compile_commands.json" || skip='^(src|tests)/server/|^tools/serve/'
grep -q 'inference.pb' "$lint_build/compile_commands.json" || skip="$skip|^src/server/grpc/convert"
own_source_includes_it_first() {
  local source=${1%.h}.cc first
  case $1 in tests/*) return 1 ;; esac
  [ -f "$source" ] || return 1
  first=$(sed -n 's/^#include ["<]\(.*\)[">].*/\1/p' "$source" | head -n 1)
  [ "$first" = "${1#*/}" ]
}
list_files 'src/*.h' 'tools/*.h' 'tests/*.h' | share_of_lint | grep -vE "$skip" |
  while IFS= read -r header; do own_source_includes_it_first "$header" || echo "$header"; done |
  xargs -P "$(nproc)" -I{} bash -c 'check_header "$1"' _ {}
