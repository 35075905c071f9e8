# Sourced by the checks that compile. Configures $lint_build, which has the commands of every source
# and the generated schema. Without OpenMP: clang has no omp.h here; without CUDA: not checked.
lint_build=build-lint
generated_headers() {
  echo proto/crema.pb.h proto/crema_file.pb.h proto/cascade.pb.h proto/onnx_model.pb.h tools/coco/coco.pb.h tools/zoo/zoo.pb.h
  grep -q grpc_cpp_plugin "$lint_build/build.ninja" && echo src/server/inference.grpc.pb.h
  return 0
}
prepare_lint_build() {
  cmake -S . -B "$lint_build" -G Ninja -DCMAKE_BUILD_TYPE=Debug -DCREMA_BUILD_TESTS=OFF \
    -DCREMA_OPENMP=OFF -DCREMA_CUDA=OFF -DCREMA_CCACHE=OFF -DCREMA_PCH=OFF -DCREMA_UNITY=OFF >"$lint_build.log" 2>&1 &&
    cmake --build "$lint_build" --target $(generated_headers) >>"$lint_build.log" 2>&1 || {
    cat "$lint_build.log"
    return 1
  }
  mv "$lint_build.log" "$lint_build/configure.log"
  declarations_only "$lint_build/proto/crema.pb.h"
}
# Half of the generated schema is bodies of accessors, which read-only checks do not need. Cuts them
# where protoc encloses them by two pairs of #ifdef __GNUC__; other layouts are not changed.
declarations_only() {
  awk '
    { line[NR] = $0 }
    /^#ifdef __GNUC__/ { begin[++begins] = NR }
    /^#endif  \/\/ __GNUC__/ { end[++ends] = NR }
    END {
      whole = begins != 2 || ends != 2
      for (i = 1; i <= NR; ++i) if (whole || i < begin[1] || i > end[2]) print line[i]
    }' "$1" >"$1.short"
  mv "$1.short" "$1"
}
