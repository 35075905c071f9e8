#!/usr/bin/env bash
# Rules for headers: one guard style, no using directives, no build-dependent text.
set -euo pipefail
. scripts/lint/files.sh

status=0
while IFS= read -r file; do
  if ! grep -q '^#pragma once$' "$file"; then
    echo "$file:1: no #pragma once"
    status=1
  fi
  hits=$(strip_comments "$file" | grep -nE '\busing namespace\b|^#.*\bCREMA_HAVE_' || true)
  if [ -n "$hits" ]; then
    sed "s|^\([0-9]*\):|$file:\1: not in a header: |" <<<"$hits"
    status=1
  fi
done < <(list_files 'src/*.h' 'src/*.cuh' 'tools/*.h' 'tests/*.h')
exit $status
