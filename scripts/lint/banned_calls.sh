#!/usr/bin/env bash
# The library never ends the process: what a user causes is thrown, see src/core/error.h.
# No range views either: clang 14, which builds the fuzz targets, cannot compile those of libstdc++ 12.
set -euo pipefail
. scripts/lint/files.sh

banned='(^|[^A-Za-z0-9_.>])((std::)?(abort|exit|_exit|_Exit|quick_exit|terminate)|LOG|CHECK(_[A-Z]+)?|assert)[[:space:]]*\('
status=0
while IFS= read -r file; do
  # Ends a child process that it made itself.
  [ "$file" = src/format/hdf5_probe.cc ] && continue
  hits=$(strip_comments "$file" | grep -nE "$banned" || true)
  if [ -n "$hits" ]; then
    sed "s|^\([0-9]*\):[[:space:]]*|$file:\1: throw crema::Error instead of: |" <<<"$hits"
    status=1
  fi
  views=$(strip_comments "$file" | grep -nE 'std::views::' || true)
  if [ -n "$views" ]; then
    sed "s|^\([0-9]*\):[[:space:]]*|$file:\1: clang 14 cannot compile: |" <<<"$views"
    status=1
  fi
done < <(list_files 'src/*.h' 'src/*.cc' 'src/*.cu' 'src/*.cuh')
exit $status
