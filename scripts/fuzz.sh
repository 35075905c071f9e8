#!/usr/bin/env bash
# Runs each libFuzzer target for some seconds, beginning with the corpus of broken files. A file that
# breaks something is kept in BUILD/fuzz/<target>-crash-*. usage: fuzz.sh BUILD SECONDS
# FUZZ_TARGETS="prototxt hdf5" runs only these.
set -euo pipefail
build=$1
seconds=$2
cd "$(dirname "$0")/.."
[ -x "$build/dev/write_corpus" ] || { echo "fuzz: build with the preset fuzz first"; exit 2; }
mkdir -p "$build/fuzz"
"$build/dev/write_corpus" "$build/fuzz/corpus"
server=""
if [ -x "$build/dev/write_server_corpus" ]; then
  "$build/dev/write_server_corpus" "$build/fuzz/corpus"
  server="httphead httpbody multipart infer"
fi

status=0
for target in ${FUZZ_TARGETS:-prototxt solver caffemodel solverstate hdf5 datum image annotated tar lmdb list windows hdf5rows modelfile statedict onnx onnxnet $server}; do
  echo "fuzz: $target, $seconds s"
  # The HDF5 library leaks on its own error paths, which Crema cannot fix.
  leaks=1
  [[ "$target" == hdf5* ]] && leaks=0
  ASAN_OPTIONS="detect_leaks=$leaks" "$build/dev/fuzz_$target" -max_total_time="$seconds" -timeout=20 -rss_limit_mb=3000 \
    -malloc_limit_mb=1024 -max_len=65536 -print_final_stats=1 -verbosity=0 \
    -artifact_prefix="$build/fuzz/$target-" "$build/fuzz/corpus/$target" 2>"$build/fuzz/$target.log" ||
    { status=1; echo "fuzz: $target broke; see $build/fuzz/$target.log"; }
  grep -E '^stat::(number_of_executed_units|new_units_added|peak_rss_mb)' "$build/fuzz/$target.log" || true
done
exit $status
