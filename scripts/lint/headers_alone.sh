#!/usr/bin/env bash
# Every header compiles alone: it includes what it uses.
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
# Where the libraries of the server are missing, it is not in the build.
skip='^$'
grep -q '/src/server/' "$lint_build/compile_commands.json" || skip='^(src|tests)/server/|^tools/serve/'
grep -q 'inference.pb' "$lint_build/compile_commands.json" || skip="$skip|^src/server/grpc/(service|convert)"
list_files 'src/*.h' 'tools/*.h' 'tests/*.h' | grep -vE "$skip" |
  xargs -P "$(nproc)" -I{} bash -c 'check_header "$1"' _ {}
