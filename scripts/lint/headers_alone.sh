#!/usr/bin/env bash
# Every header compiles alone: it includes what it uses.
set -euo pipefail
. scripts/lint/files.sh
. scripts/lint/compile_database.sh
prepare_lint_build

# Included, not compiled itself: #pragma once in a main file is a warning. -fopenmp as in the build.
check_header() {
  g++ -std=c++20 -fsyntax-only -Wall -Wextra -Wshadow -Werror -fopenmp -Isrc -Itools -Itests \
    -isystem "$1/proto" -isystem /usr/include/opencv4 -x c++ - <<<"#include \"$2\"" || {
    echo "$2:1: does not compile alone"
    return 1
  }
}
export -f check_header
list_files 'src/*.h' 'tools/*.h' 'tests/*.h' |
  xargs -P "$(nproc)" -I{} bash -c 'check_header "$@"' _ "$lint_build" {}
