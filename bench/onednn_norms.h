// More calls of oneDNN for benchmarks: normalisation and binary primitives that have no row of a
// kernel list.
#pragma once

#include <algorithm>

#include "onednn_calls.h"

namespace crema::bench {

// Forward and backward of LRN over channels with the workspace that they share.
struct LrnTraining {
  LrnTraining(int64_t batch, int64_t channels, int64_t size)
      : x(F32({batch, channels, size, size}, Blocked())),
        forward_desc(MakeForward()),
        workspace(forward_desc.workspace_desc(), Engine()),
        forward(dnnl::lrn_forward(forward_desc), {{DNNL_ARG_SRC, Filled(x, 0.5F)},
                                                  {DNNL_ARG_DST, Filled(x, 0)},
                                                  {DNNL_ARG_WORKSPACE, workspace}}),
        backward(dnnl::lrn_backward(MakeBackward()), {{DNNL_ARG_SRC, Filled(x, 0.5F)},
                                                      {DNNL_ARG_DIFF_DST, Filled(x, 0.5F)},
                                                      {DNNL_ARG_DIFF_SRC, Filled(x, 0)},
                                                      {DNNL_ARG_WORKSPACE, workspace}}) {}

  memory::desc x;
  dnnl::lrn_forward::primitive_desc forward_desc;
  memory workspace;
  Call forward, backward;

 private:
  static constexpr auto kAcross = dnnl::algorithm::lrn_across_channels;
  static constexpr auto kTraining = dnnl::prop_kind::forward_training;
#if DNNL_VERSION_MAJOR >= 3
  dnnl::lrn_forward::primitive_desc MakeForward() const {
    return {Engine(), kTraining, kAcross, x, x, 5, 1e-4F, 0.75F, 1.0F};
  }
  dnnl::lrn_backward::primitive_desc MakeBackward() const {
    return {Engine(), kAcross, x, x, x, 5, 1e-4F, 0.75F, 1.0F, forward_desc};
  }
#else
  dnnl::lrn_forward::primitive_desc MakeForward() const {
    return {{kTraining, kAcross, x, 5, 1e-4F, 0.75F, 1.0F}, Engine()};
  }
  dnnl::lrn_backward::primitive_desc MakeBackward() const {
    return {{kAcross, x, x, 5, 1e-4F, 0.75F, 1.0F}, Engine(), forward_desc};
  }
#endif
};

// By stored statistics, or by those of the batch.
inline Call BatchNormCall(bool stored, int64_t batch, int64_t channels, int64_t size) {
  const memory::desc x = F32({batch, channels, size, size}, Blocked());
  const memory::desc numbers = F32({channels}, Tag::a);
  const auto flags =
      stored ? dnnl::normalization_flags::use_global_stats : dnnl::normalization_flags::none;
  const auto kind = stored ? kInference : dnnl::prop_kind::forward_training;
#if DNNL_VERSION_MAJOR >= 3
  const auto desc = Describe<dnnl::batch_normalization_forward>(kind, x, x, 1e-5F, flags);
#else
  const auto desc = Describe<dnnl::batch_normalization_forward>(kind, x, 1e-5F, flags);
#endif
  return {dnnl::batch_normalization_forward(desc),
          {{DNNL_ARG_SRC, Filled(x, 0.5F)},
           {DNNL_ARG_DST, Filled(x, 0)},
           {DNNL_ARG_MEAN, Filled(numbers, 0.5F)},
           {DNNL_ARG_VARIANCE, Filled(numbers, 0.5F)}}};
}

// An elementwise call with two blobs.
inline Call BinaryCall(dnnl::algorithm algorithm, int64_t count) {
  const memory::desc x = F32({count}, Tag::a);
  const auto desc = Describe<dnnl::binary>(algorithm, x, x, x);
  return {dnnl::binary(desc),
          {{DNNL_ARG_SRC_0, Filled(x, 0.5F)},
           {DNNL_ARG_SRC_1, Filled(x, 0.25F)},
           {DNNL_ARG_DST, Filled(x, 0)}}};
}

}  // namespace crema::bench
