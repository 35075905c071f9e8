#!/usr/bin/env bash
# Checks that the status of every call of CUDA's runtime and libraries is used: it is an argument of
# a Check...(), or is stored, compared or returned, unless the call cleans up or cannot fail.
# Exceptions are in allowed_calls.txt as "file: call" after the reason. Kernels are launched in
# launch.cuh only, which checks.
set -euo pipefail
. scripts/lint/files.sh
allowed=scripts/lint/allowed_calls.txt

# Prints file:line:call of each call whose status is ignored.
unchecked() {
  strip_comments "$1" | awk -v file="$1" '
    function judge(    rest, call) {
      if (statement ~ /Check[A-Z][A-Za-z]*[ ]*\(|[=!]=|(^|[^=!<>])=($|[^=])|(^| )return[ ]/) return
      rest = statement
      while (match(rest, /(cuda[A-Z][A-Za-z0-9]*|(Cublas|CublasLt|Cudnn|Nccl)\(\)\.[a-z_0-9]+)[ ]*\(/)) {
        call = substr(rest, RSTART, RLENGTH - 1)
        rest = substr(rest, RSTART + RLENGTH)
        if (call !~ /GetLastError|GetError|^cudaFree|Destroy|destroy|_string$|\.version$/) print file ":" start ":" call
      }
    }
    {
      text = $0
      if (text ~ /^[ ]*#/) next
      while (match(text, /[;{}]/)) {
        if (statement == "") start = NR
        statement = statement " " substr(text, 1, RSTART - 1)
        text = substr(text, RSTART + 1)
        judge()
        statement = ""
      }
      if (statement == "") start = NR
      statement = statement " " text
      if (statement ~ /^[ ]*$/) statement = ""
    }'
}

status=0
while IFS= read -r file; do
  while IFS=: read -r where line call; do
    if grep -qxF "$where: $call" "$allowed"; then continue; fi
    echo "$where:$line: nobody looks at the status of $call"
    status=1
  done < <(unchecked "$file")
  if [ "$file" != src/math/cuda/launch.cuh ] && strip_comments "$file" | grep -n '<<<' >/dev/null; then
    echo "$file:1: kernels are launched by math/cuda/launch.cuh"
    status=1
  fi
done < <(list_files 'src/*.cu' 'src/*.cuh' 'src/math/cuda/*.h')
exit $status
