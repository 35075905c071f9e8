# shellcheck shell=bash
# Sourced by the download scripts. Needs curl and md5sum.

fail() {
  echo "error: $*" >&2
  exit 3
}

# Succeeds if file $1 has the MD5 sum $2.
is_whole() {
  [ -f "$1" ] && [ "$(md5sum "$1" | cut -d ' ' -f 1)" = "$2" ]
}

# fetch FILE MD5 URL...: into the current folder, from the first address that answers. Continues
# the incomplete file of an earlier call; does not fetch a complete one again.
fetch() {
  local file=$1 sum=$2 url
  shift 2
  if is_whole "$file" "$sum"; then
    echo "$file is there already"
    return
  fi
  command -v curl >/dev/null || fail "curl is needed: install it, or put $file here yourself"
  for url in "$@"; do
    echo "fetching $url"
    curl --fail --location --connect-timeout 20 --retry 2 --continue-at - \
      --output "$file.part" "$url" || continue
    if is_whole "$file.part" "$sum"; then
      mv "$file.part" "$file"
      return
    fi
    echo "$file.part is not what it should be (MD5 $sum): removed" >&2
    rm -f "$file.part"
  done
  fail "cannot fetch $file: is there a network, a proxy? What was fetched so far is kept and" \
    "continued by the next call; or fetch it elsewhere, from one of: $*, and put it into $PWD"
}

# Prints the comment at the head of a script, for --help.
usage() {
  sed -n '2,/^[^#]/{s/^# \{0,1\}//p}' "$1"
}
