// Internal: a primitive that makes y of x and needs nothing else.
#pragma once

#include <optional>
#include <span>
#include <utility>

#include "math/cpu/onednn/pieces.h"

namespace crema::onednn {

// `Primitive` is a dnnl::..._forward. Thread safety: one thread at a time.
template <typename Primitive>
class MapRunner {
 public:
  using Desc = typename Primitive::primitive_desc;

  // `what` is for messages, and must stay. Calls describe(), which may throw what oneDNN throws.
  template <typename Describe>
  MapRunner(const char* what, int threads, const Describe& describe)
      : what_(what), threads_(threads), desc_(DescOf(what, threads, describe)) {}

  bool IsReference() const { return onednn::IsReference(desc_); }
  size_t Scratch() const { return ScratchOf(desc_); }

  // Makes the primitive, which the first call would do otherwise.
  void Prepare() {
    if (stream_) return;
    const ThreadCount count(threads_);
    Try(what_, [&] {
      stream_.emplace(Cpu());
      run_ = Runner(Primitive(desc_),
                    Args{{DNNL_ARG_SRC, WithoutData(desc_.src_desc())},
                         {DNNL_ARG_DST, WithoutData(desc_.dst_desc())},
                         {DNNL_ARG_SCRATCHPAD, WithoutData(desc_.scratchpad_desc())}});
    });
  }

  void Forward(const float* x, float* y, std::span<std::byte> scratch) {
    Prepare();
    const ThreadCount count(threads_);
    Try(what_, [&] {
      run_.Set(DNNL_ARG_SRC, x);
      run_.Set(DNNL_ARG_DST, y);
      run_.Set(DNNL_ARG_SCRATCHPAD, scratch.data());
      run_.Run(*stream_);
    });
  }

 private:
  template <typename Describe>
  static Desc DescOf(const char* what, int threads, const Describe& describe) {
    const ThreadCount count(threads);
    return Try(what, describe);
  }

  const char* const what_;
  const int threads_;
  const Desc desc_;
  std::optional<dnnl::stream> stream_;
  Runner run_;
};

}  // namespace crema::onednn
