// Internal: runs a primitive that computes y from x, and a workspace if it has one.
#pragma once

#include <span>

#include "math/cpu/onednn/pieces.h"

namespace crema::onednn {

// `Primitive` is a dnnl::..._forward. Thread safety: one thread at a time.
template <typename Primitive>
class MapRunner {
 public:
  using Desc = typename Primitive::primitive_desc;

  // `what` is for messages, and must outlive this. Calls describe(), which may throw oneDNN's
  // errors.
  template <typename Describe>
  MapRunner(const char* what, int threads, const Describe& describe)
      : what_(what), threads_(threads), desc_(DescOf(what, threads, describe)) {}

  const Desc& desc() const { return desc_; }
  size_t WorkspaceBytes() const { return desc_.workspace_desc().get_size(); }
  // Includes room for an unwanted workspace.
  size_t Scratch() const {
    Pieces pieces(nullptr);
    pieces.Take(ScratchOf(desc_));
    pieces.Take(WorkspaceBytes());
    return pieces.used();
  }

  // Creates the primitive; otherwise the first Forward does.
  void Prepare() {
    if (run_) return;
    const ThreadCount count(threads_);
    Try(what_, [&] { run_ = MakeRunner<Primitive>(desc_); });
  }

  // `workspace` may be null if it is not needed.
  void Forward(const float* x, float* y, void* workspace, std::span<std::byte> scratch) {
    Prepare();
    const ThreadCount count(threads_);
    Pieces pieces(scratch.data());
    Try(what_, [&] {
      run_.Set(DNNL_ARG_SRC, x);
      run_.Set(DNNL_ARG_DST, y);
      run_.Set(DNNL_ARG_SCRATCHPAD, pieces.Take<void>(ScratchOf(desc_)));
      void* unwanted = pieces.Take<void>(WorkspaceBytes());
      run_.Set(DNNL_ARG_WORKSPACE, workspace == nullptr ? unwanted : workspace);
      run_.Run();
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
  Runner run_;
};

}  // namespace crema::onednn
