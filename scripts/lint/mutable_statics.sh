#!/usr/bin/env bash
# No hidden state: two nets in two threads share nothing. Static variables and thread_local ones
# must be const; exceptions are in allowed_statics.txt as "file: text of the line" after the reason.
# (clang-tidy finds namespace-scope variables.)
set -euo pipefail
. scripts/lint/files.sh
allowed=scripts/lint/allowed_statics.txt

status=0
while IFS= read -r file; do
  # A static variable ends its declarator with ; = or { before any parenthesis.
  hits=$(strip_comments "$file" |
    grep -nE '^[[:space:]]*((inline|static|thread_local)[[:space:]]+)*(static|thread_local)[[:space:]][^()]*([;={]|$)' |
    grep -vE '(static|thread_local|inline)[[:space:]]+(const|constexpr|constinit const)[[:space:]]' || true)
  [ -n "$hits" ] || continue
  while IFS=: read -r line text; do
    text=$(sed 's/^[[:space:]]*//; s/[[:space:]]*$//' <<<"$text")
    if ! grep -qxF "$file: $text" "$allowed"; then
      echo "$file:$line: mutable static: $text"
      status=1
    fi
  done <<<"$hits"
done < <(list_files 'src/*.h' 'src/*.cc' 'src/*.cu' 'src/*.cuh')
exit $status
