#!/usr/bin/env bash
# Every header that is included in quotes exists, also in folders that CI does not build (bench, GPU).
set -euo pipefail
. scripts/lint/files.sh

failed=0
while IFS=: read -r file line text; do
  header=${text#*\"}
  header=${header%%\"*}
  [[ $header == *.pb.h || $header == *.hpp ]] && continue
  for folder in src tools tests bench include examples packaging "$(dirname "$file")"; do
    [ -f "$folder/$header" ] && continue 2
  done
  echo "$file:$line: no such file: $header"
  failed=1
done < <(list_files '*.h' '*.cc' '*.cu' '*.cuh' | xargs grep -nE '^[[:space:]]*#[[:space:]]*include[[:space:]]*"' /dev/null)
exit $failed
