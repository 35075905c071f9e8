// Internal: scratch in pieces, and reordering of weights.
#pragma once

#include <cstddef>
#include <string_view>

#include "math/cpu/onednn/primitives.h"

namespace crema::onednn {

// Pieces of one scratch, each on a cache line of its own.
class Pieces {
 public:
  explicit Pieces(std::byte* base) : base_(base) {}
  template <typename T = float>
  T* Take(size_t bytes) {
    std::byte* piece = base_ + used_;
    used_ += (bytes + 63) / 64 * 64;
    return reinterpret_cast<T*>(piece);
  }
  size_t used() const { return used_; }

 private:
  std::byte* base_;
  size_t used_ = 0;
};

inline size_t ScratchOf(const dnnl::primitive_desc_base& desc) {
  return desc.scratchpad_desc().get_size();
}

inline bool IsReference(const dnnl::primitive_desc_base& desc) {
  const std::string_view name = desc.impl_info_str();
  return name.starts_with("ref") || name.starts_with("lrn_ref") || name.starts_with("simple");
}

// Reorders weights between the layouts of a caffemodel and of a primitive; `add`: adds to the
// target.
inline Runner MakeReorder(const dnnl::memory::desc& from, const dnnl::memory::desc& to, bool add) {
  dnnl::primitive_attr attr;
  if (add) {
    dnnl::post_ops ops;
    ops.append_sum(1);
    attr.set_post_ops(ops);
  }
  const dnnl::reorder::primitive_desc desc(Cpu(), from, Cpu(), to, attr);
  return MakeRunner<dnnl::reorder>(desc);
}

inline void RunReorder(Runner* reorder, const void* from, void* to) {
  reorder->Set(DNNL_ARG_FROM, from);
  reorder->Set(DNNL_ARG_TO, to);
  reorder->Run();
}

}  // namespace crema::onednn
