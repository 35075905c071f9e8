#!/usr/bin/env bash
# All checks of the sources that are not tests. Usage: scripts/lint.sh [--quick]
# --quick leaves out what compiles: headers alone, clang-tidy, GPU code. A check is a script in scripts/lint/
# that prints file:line: message and fails; every one is run, and the failed ones named at the end.
set -uo pipefail
cd "$(dirname "$0")/.."

quick=(format builtin_layers banned_calls checked_calls include_direction header_rules file_length
  mutable_statics type_names included_files doc_code version)
slow=(headers_alone clang_tidy gpu_code)
checks=("${quick[@]}")
[ "${1:-}" = --quick ] || checks+=("${slow[@]}")

failed=()
for check in "${checks[@]}"; do
  start=$SECONDS
  if "scripts/lint/$check.sh"; then
    echo "lint: $check ok ($((SECONDS - start)) s)"
  else
    echo "lint: $check FAILED"
    failed+=("$check")
  fi
done
if [ "${#failed[@]}" != 0 ]; then
  echo "lint: failed: ${failed[*]}" >&2
  exit 1
fi
echo "lint: all ${#checks[@]} checks passed"
