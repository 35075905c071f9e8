#include "layers/pooling/pool_geometry.h"

#include <algorithm>
#include <cmath>

#include "core/strings.h"

namespace crema {
namespace {

struct Side {
  uint32_t h;
  uint32_t w;
};

Side Kernel(const PoolingParameter& p) {
  return p.has_kernel_size() ? Side{p.kernel_size(), p.kernel_size()}
                             : Side{p.kernel_h(), p.kernel_w()};
}
Side Stride(const PoolingParameter& p) {
  return p.has_stride_h() ? Side{p.stride_h(), p.stride_w()} : Side{p.stride(), p.stride()};
}
Side Pad(const PoolingParameter& p) {
  return p.has_pad_h() ? Side{p.pad_h(), p.pad_w()} : Side{p.pad(), p.pad()};
}

// `whole` excludes the pair, and of the pair both must be given.
void CheckForms(const Layer& layer, const std::string& stem, bool whole, bool h, bool w) {
  if (h != w) {
    FailField(layer, "pooling_param." + stem + (h ? "_w" : "_h"),
              StrCat(stem, "_h and ", stem, "_w must both be given"));
  }
  if (whole && h) {
    FailField(layer, "pooling_param." + stem,
              StrCat("give ", stem, " or ", stem, "_h and ", stem, "_w, not both"));
  }
}

void CheckGlobal(const Layer& layer, const PoolingParameter& p) {
  if (p.has_kernel_size() || p.has_kernel_h() || p.has_kernel_w()) {
    FailField(layer, "pooling_param.kernel_size",
              "with global_pooling the kernel is the whole plane; leave the kernel size out");
  }
  if (Pad(p).h != 0 || Pad(p).w != 0) {
    FailField(layer, "pooling_param.pad", "with global_pooling pad must be 0; leave it out");
  }
  if (Stride(p).h != 1 || Stride(p).w != 1) {
    FailField(layer, "pooling_param.stride", "with global_pooling stride must be 1; leave it out");
  }
}

void CheckKernel(const Layer& layer, const PoolingParameter& p) {
  if (!p.has_kernel_size() && !p.has_kernel_h() && !p.has_kernel_w()) {
    FailField(layer, "pooling_param.kernel_size",
              "kernel_size is missing; give it, kernel_h and kernel_w, or global_pooling: true");
  }
  // Caffe takes kernel_size with one of kernel_h and kernel_w beside it.
  if (!p.has_kernel_size() || (p.has_kernel_h() && p.has_kernel_w())) {
    CheckForms(layer, "kernel", p.has_kernel_size(), p.has_kernel_h(), p.has_kernel_w());
  }
  const Side kernel = Kernel(p);
  const Side pad = Pad(p);
  if (kernel.h == 0 || kernel.w == 0) {
    FailField(layer, "pooling_param.kernel_size", "the kernel size must be above 0");
  }
  if (pad.h >= kernel.h || pad.w >= kernel.w) {
    FailField(layer, "pooling_param.pad",
              StrCat("pad ", pad.h, "x", pad.w, " must be smaller than the kernel ", kernel.h, "x",
                     kernel.w));
  }
}

bool RoundsDown(const PoolingParameter& p) {
  return p.has_round_mode() ? p.round_mode() == PoolingParameter::FLOOR : !p.ceil_mode();
}

// As Caffe computes it, in single precision.
int64_t OutExtent(const PoolAxis& axis, bool rounds_down) {
  const float steps =
      static_cast<float>(axis.in + 2 * axis.pad - axis.kernel) / static_cast<float>(axis.stride);
  return static_cast<int64_t>(rounds_down ? std::floor(steps) : std::ceil(steps)) + 1;
}

}  // namespace

void ValidatePoolParam(const Layer& layer) {
  const PoolingParameter& p = layer.param().pooling_param();
  CheckForms(layer, "pad", p.has_pad(), p.has_pad_h(), p.has_pad_w());
  CheckForms(layer, "stride", p.has_stride(), p.has_stride_h(), p.has_stride_w());
  const Side stride = Stride(p);
  if (stride.h == 0 || stride.w == 0) {
    FailField(layer, "pooling_param.stride", "stride must be above 0");
  }
  if (p.global_pooling()) {
    CheckGlobal(layer, p);
  } else {
    CheckKernel(layer, p);
  }
  if (p.pool() == PoolingParameter::STOCHASTIC && (Pad(p).h != 0 || Pad(p).w != 0)) {
    FailField(layer, "pooling_param.pad", "pad must be 0 for STOCHASTIC pooling");
  }
}

PoolWindow MakePoolWindow(const Layer& layer, const Shape& input) {
  const PoolingParameter& p = layer.param().pooling_param();
  if (input.axes() != 4) {
    FailInputs(layer, StrCat("pooling works on inputs of 4 axes (batch, channels, height, width), ",
                             "but the input is ", ToString(input)));
  }
  const Side kernel = Kernel(p);
  const Side pad = Pad(p);
  PoolWindow window;
  window.h = {input[2], 0, p.global_pooling() ? input[2] : int64_t{kernel.h}, Stride(p).h, pad.h};
  window.w = {input[3], 0, p.global_pooling() ? input[3] : int64_t{kernel.w}, Stride(p).w, pad.w};
  for (PoolAxis* axis : {&window.h, &window.w}) {
    axis->out = OutExtent(*axis, RoundsDown(p));
    const bool padded = pad.h != 0 || pad.w != 0;
    // The last window must start inside the image or the padding before it.
    if (padded && (axis->out - 1) * axis->stride >= axis->in + axis->pad) --axis->out;
    if (axis->out < 1 || axis->in < 1) {
      FailInputs(layer,
                 StrCat("a window of ", window.h.kernel, "x", window.w.kernel, " with pad ", pad.h,
                        "x", pad.w, " does not fit the input of shape ", ToString(input)));
    }
  }
  // What lies behind the padding is in no window: a shorter kernel takes the same values.
  for (PoolAxis* axis : {&window.h, &window.w}) {
    axis->kernel = std::min(axis->kernel, axis->in + 2 * axis->pad);
  }
  return window;
}

}  // namespace crema
