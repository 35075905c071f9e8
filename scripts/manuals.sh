#!/bin/sh
# Writes manuals and completions of shells to OUT, in the folders that they are installed to below
# share/. Each command in BIN describes itself (tools/common/manual.h).
# usage: manuals.sh BIN OUT COMMAND...
set -eu

parts=$(dirname "$0")/completion
bin=$1
out=$2
shift 2

rm -rf "$out" # pages of commands that this build no longer has
mkdir -p "$out/man/man1"
for name in "$@"; do
  "$bin/$name" --help=man >"$out/man/man1/crema-$name.1"
done

{
  printf '.TH CREMA 1 "" "%s" "Crema"\n' "$("$bin/crema" --version)"
  printf '.SH NAME\ncrema \\- trains and deploys neural networks\n'
  printf '.SH SYNOPSIS\n.B crema\n.I COMMAND\n[arguments]\n.SH COMMANDS\n.nf\n'
  "$bin/crema" --help | sed -e '1,/^$/d' -e 's/\\/\\e/g' -e 's/-/\\-/g' -e "s/'/\\\\(aq/g" -e 's/^$/.sp/'
  printf '.fi\n.SH SEE ALSO\n'
  first=
  for name in "$@"; do
    printf '%s.BR crema\\-%s (1)' "$first" "$name"
    first=',
'
  done
  printf '\n'
} >"$out/man/man1/crema.1"

# The completion of one shell to a file: its head, a part of each command, its tail.
completion() {
  mkdir -p "$(dirname "$2")"
  {
    cat "$parts/head.$1"
    for name in $commands; do "$bin/$name" --help="$1"; done
    if [ -f "$parts/tail.$1" ]; then cat "$parts/tail.$1"; fi
  } >"$2"
}
commands=$*
completion bash "$out/bash-completion/completions/crema"
completion zsh "$out/zsh/site-functions/_crema"
completion fish "$out/fish/vendor_completions.d/crema.fish"
