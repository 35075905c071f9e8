# Sourced by the checks. Lists Crema's files that match the given git patterns, in a checkout or
# outside one.
list_files() {
  local file
  { git ls-files --cached --others --exclude-standard -- "$@" 2>/dev/null || list_unversioned "$@"; } |
    sort -u | while IFS= read -r file; do
      if [ -f "$file" ]; then printf '%s\n' "$file"; fi
    done
}

list_unversioned() {
  local pattern
  for pattern in "$@"; do
    find . -name 'build*' -prune -o -path "./$pattern" -type f -print | sed 's|^\./||'
  done
}

# Prints the lines of standard input that belong to share k of n, by LINT_SHARE=k/n (k from 0); all
# if it is unset. The share of a line does not depend on its position.
share_of_lint() {
  local line
  if [ -z "${LINT_SHARE:-}" ]; then cat; return; fi
  while IFS= read -r line; do
    if [ $(($(cksum <<<"$line" | cut -d' ' -f1) % ${LINT_SHARE#*/})) = "${LINT_SHARE%/*}" ]; then
      printf '%s\n' "$line"
    fi
  done
}

# Prints a C++ file without comments and with empty strings; line numbers stay. (Raw strings that
# contain a quote are not supported.)
strip_comments() {
  awk '
    {
      line = $0; out = ""
      while (line != "") {
        if (inside) {
          end = index(line, "*/")
          if (end == 0) { line = ""; break }
          line = substr(line, end + 2); inside = 0
        } else if (match(line, /"([^"\\]|\\.)*"|\/\/|\/\*/)) {
          token = substr(line, RSTART, RLENGTH)
          out = out substr(line, 1, RSTART - 1)
          line = substr(line, RSTART + RLENGTH)
          if (token == "//") { line = "" } else if (token == "/*") { inside = 1 } else { out = out "\"\"" }
        } else { out = out line; line = "" }
      }
      print out
    }' "$1"
}
