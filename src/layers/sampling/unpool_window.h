// Windows of UnPooling, from its parameters and the shape of its input.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/strings.h"
#include "crema.pb.h"
#include "graph/layer.h"
#include "math/pool.h"

namespace crema {

struct UnpoolSide {
  int64_t h;
  int64_t w;
};

inline UnpoolSide UnpoolKernel(const UnPoolingParameter& p) {
  return p.has_kernel_size() ? UnpoolSide{p.kernel_size(), p.kernel_size()}
                             : UnpoolSide{p.kernel_h(), p.kernel_w()};
}
inline UnpoolSide UnpoolStride(const UnPoolingParameter& p) {
  return p.has_stride_h() ? UnpoolSide{p.stride_h(), p.stride_w()}
                          : UnpoolSide{p.stride(), p.stride()};
}
inline UnpoolSide UnpoolPad(const UnPoolingParameter& p) {
  return p.has_pad_h() ? UnpoolSide{p.pad_h(), p.pad_w()} : UnpoolSide{p.pad(), p.pad()};
}
inline UnpoolSide UnpoolSize(const UnPoolingParameter& p) {
  return p.has_unpool_h() ? UnpoolSide{p.unpool_h(), p.unpool_w()}
                          : UnpoolSide{p.unpool_size(), p.unpool_size()};
}

inline PoolAxis UnpoolAxis(const Layer& layer, const Shape& input, int axis, int64_t kernel,
                           int64_t stride, int64_t pad, int64_t size) {
  const int64_t last = input[axis] - 1;
  PoolAxis made{.out = input[axis], .kernel = kernel, .stride = stride, .pad = pad};
  made.in = size > 0 ? size : last * stride + kernel - 2 * pad;
  if (last < 0 || made.in < 1) {
    FailInputs(layer, StrCat("the input of shape ", ToString(input),
                             " gives an output without "
                             "pixels; use a smaller pad, or give the size"));
  }
  const bool windows = layer.param().unpooling_param().unpool() != UnPoolingParameter::MAX;
  if (windows && made.Start(last) >= made.in) {
    FailField(layer, "unpooling_param.unpool_size",
              StrCat("the last window starts at ", made.Start(last), ", past the end (", made.in,
                     ") of the output"));
  }
  made.kernel = std::min(made.kernel, made.in + 2 * pad);
  return made;
}

// Returns the pooling that UnPooling inverts: that pooling's input is our output. Throws
// kInvalidArgument if the input does not fit the parameters.
inline PoolWindow UnpoolWindow(const Layer& layer, const Shape& input) {
  const UnPoolingParameter& p = layer.param().unpooling_param();
  const UnpoolSide kernel = UnpoolKernel(p), stride = UnpoolStride(p), pad = UnpoolPad(p),
                   size = UnpoolSize(p);
  return {UnpoolAxis(layer, input, 2, kernel.h, stride.h, pad.h, size.h),
          UnpoolAxis(layer, input, 3, kernel.w, stride.w, pad.w, size.w)};
}

}  // namespace crema
