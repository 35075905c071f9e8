#!/usr/bin/env bash
# Builds the site of the documentation into BUILD/site; fails for a dead link, a page outside the
# nav, or a misspelt word. Usage: scripts/site.sh [BUILD]   (default: build; needs its commands and
# layer_reference). The tools come from PyPI into a virtual environment outside of the tree.
set -euo pipefail
cd "$(dirname "$0")/.."

export CREMA_BUILD=$(realpath "${1:-build}") PYTHONDONTWRITEBYTECODE=1 NO_MKDOCS_2_WARNING=1
export CREMA_SITE=$CREMA_BUILD/site CREMA_SITE_PYTHON=$CREMA_BUILD/site-python
tools=${CREMA_SITE_TOOLS:-${XDG_CACHE_HOME:-$HOME/.cache}/crema/site-tools}
[ -x "$tools/bin/pip" ] || python3 -m venv "$tools"
if ! [ -x "$tools/bin/mkdocs" ] || ! [ -x "$tools/bin/codespell" ]; then
  "$tools/bin/pip" install --quiet 'mkdocs<2' 'mkdocs-material<10' 'mkdocstrings[python]<2' 'codespell<3'
fi

python3 scripts/site/check.py
git ls-files -z --cached --others --exclude-standard '*.md' |
  xargs -0 "$tools/bin/codespell" --ignore-words=scripts/site/words.txt || {
  echo "misspelt; words that are right go into scripts/site/words.txt" >&2
  exit 1
}
command -v dot >/dev/null || echo "note: no Graphviz; the pages of layers get no pictures" >&2
"$tools/bin/mkdocs" --quiet build --strict --config-file scripts/site/mkdocs.yml
echo "$CREMA_SITE/index.html: $(find "$CREMA_SITE" -name '*.html' | wc -l) pages"
