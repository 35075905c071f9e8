#!/usr/bin/env bash
# Checks that no namespace has two types of one name. The linker takes one of their functions for
# both, without a message, and the program breaks at run time. Types of anonymous namespaces and
# types within types are not looked at. Relies on clang-format, which begins these lines with the
# keyword.
set -euo pipefail
. scripts/lint/files.sh

mapfile -t files < <(list_files 'src/*.h' 'src/*.cc' 'src/*.cu' 'src/*.cuh' 'tools/*.h' 'tools/*.cc' \
  'python/src/*.h' 'python/src/*.cc')
awk '
  FNR == 1 { depth = raw = 0 }
  raw { if (/\)[A-Za-z]*"/) raw = 0; next }
  /R"[A-Za-z]*\(/ && !/\)[A-Za-z]*";?/ { raw = 1; next }
  /^(inline )?namespace.*\{$/ { name = $0; sub(/^.*namespace */, "", name); sub(/ *\{$/, "", name); spaces[++depth] = name }
  /^}  \/\/ (inline )?namespace/ { --depth }
  /^(struct|class|union|enum class|enum) .*\{/ && !/</ {
    name = $0
    sub(/^(struct|class|union|enum class|enum) /, "", name)
    sub(/^(alignas\([^)]*\)|\[\[[a-z]*\]\]) /, "", name)
    if (name !~ /^[A-Za-z0-9_]+( final)? (: [^:].*)?\{/) next  # a type within a type
    sub(/ .*/, "", name)
    for (k = depth; k > 0; --k) {
      if (spaces[k] == "") next
      name = spaces[k] "::" name
    }
    if (name in place) {
      printf "%s:%d: %s is defined in %s too\n", FILENAME, FNR, name, place[name]
      failed = 1
    }
    place[name] = FILENAME ":" FNR
    ++count
  }
  END {
    if (count < 500) { printf "scripts/lint/type_names.sh:1: only %d types found\n", count; failed = 1 }
    exit failed
  }' "${files[@]}"
