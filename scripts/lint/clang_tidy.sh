#!/usr/bin/env bash
# Runs clang-tidy with .clang-tidy over src/ and tools/. Skips a file if its preprocessed text, the
# checks and the tool are those of an earlier run that passed. LINT_SHARE: see files.sh.
set -euo pipefail
. scripts/lint/files.sh
. scripts/lint/compile_database.sh
prepare_lint_build
mkdir -p "$lint_build/tidy"

tidy_file() {
  local build=$1 file=$2 command key
  command=$(awk -v file="/$file\"" '
    /"command":/ { command = $0 }
    /"file":/ && index($0, file) { sub(/^[^:]*: "/, "", command); sub(/",$/, "", command); print command; exit }
  ' "$build/compile_commands.json" | sed 's/ -o [^ ]*//; s/ -c / -E /; s/\\\\\\"/\\"/g')
  [ -n "$command" ] || return 0  # not in this build
  key=$({ (cd "$build" && eval "$command") && cat .clang-tidy && clang-tidy --version; } | sha256sum |
    cut -d' ' -f1)
  [ -e "$build/tidy/$key" ] && return 0
  if ! clang-tidy --quiet -p "$build" "$file" 2>"$build/tidy/$key.log"; then
    grep -v ' warnings\? ' "$build/tidy/$key.log" || true
    return 1
  fi
  touch "$build/tidy/$key"
}
export -f tidy_file
list_files 'src/*.cc' 'tools/*.cc' | share_of_lint |
  xargs -P "${LINT_JOBS:-$(nproc)}" -I{} bash -c 'tidy_file "$@"' _ "$lint_build" {}
