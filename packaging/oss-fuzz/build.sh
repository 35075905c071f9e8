#!/bin/bash -eu
# Builds the libFuzzer targets into $OUT, each with its seeds and the libraries that it links.
export CFLAGS="${CFLAGS//-stdlib=libc++/}" CXXFLAGS="${CXXFLAGS//-stdlib=libc++/}"
build=$WORK/crema
cmake -S "$SRC/crema" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo \
  -DCMAKE_C_COMPILER="$CC" -DCMAKE_CXX_COMPILER="$CXX" -DCREMA_FUZZ=ON -DCREMA_OPENMP=OFF \
  -DCREMA_CUDA=OFF -DCREMA_SANITIZE="$SANITIZER,fuzzer-no-link" \
  -DCMAKE_BUILD_RPATH_USE_ORIGIN=ON
targets="prototxt solver caffemodel solverstate hdf5 datum image annotated tar lmdb list windows
  hdf5rows modelfile statedict onnx onnxnet httphead httpbody infer"
programs=""
for target in $targets; do programs="$programs fuzz_$target"; done
# shellcheck disable=SC2086
ninja -C "$build" $programs write_corpus write_server_corpus

"$build/dev/write_corpus" "$WORK/corpus"
"$build/dev/write_server_corpus" "$WORK/corpus"
mkdir -p "$OUT/lib"
find "$build" -name 'libcrema*.so*' -exec cp -P {} "$OUT/lib" \;
for target in $targets; do
  cp "$build/dev/fuzz_$target" "$OUT/"
  ldd "$OUT/fuzz_$target" | awk '$3 ~ /^\// { print $3 }' |
    grep -vE '/(ld-linux|libc|libm|libpthread|libdl|librt)[-.]' | xargs -I{} cp -L {} "$OUT/lib/"
  # shellcheck disable=SC2016
  patchelf --force-rpath --set-rpath '$ORIGIN/lib' "$OUT/fuzz_$target"
  zip -qjr "$OUT/fuzz_${target}_seed_corpus.zip" "$WORK/corpus/$target"
  printf '[libfuzzer]\nmax_len = 65536\ntimeout = 20\nrss_limit_mb = 2560\n' >"$OUT/fuzz_$target.options"
done
