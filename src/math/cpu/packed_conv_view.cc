#include "math/cpu/packed_conv_view.h"

#include "core/error.h"
#include "math/cpu/simd_gemm.h"

namespace crema {

PackedConvShape::PackedConvShape(const ConvWindow& window, int64_t group_count, int64_t in_channels,
                                 int64_t out_channels)
    : groups(group_count),
      channels(in_channels / group_count),
      outputs(out_channels / group_count) {
  CREMA_CHECK(window.axes <= 2);
  for (int i = 0; i < window.axes; ++i) {
    const auto a = static_cast<size_t>(i);
    Axis& axis = i == window.axes - 1 ? w : h;
    axis = {window.in[a],
            window.out[a],
            window.kernel[a],
            window.stride[a],
            window.pad[a],
            window.dilation[a],
            1};
    axis.reach = (axis.out - 1) * axis.stride + (axis.kernel - 1) * axis.dilation + 1;
  }
}

bool HavePackedConv() { return FindSimdGemm<float>().vector >= 8; }

namespace packed_conv {

void FillOffsets(const PackedConvShape& s, int32_t* offsets) {
  for (int64_t c = 0; c < s.channels; ++c) {
    for (int64_t kh = 0; kh < s.h.kernel; ++kh) {
      for (int64_t kw = 0; kw < s.w.kernel; ++kw) {
        *offsets++ = static_cast<int32_t>((c * s.h.reach + kh * s.h.dilation) * s.w.reach +
                                          kw * s.w.dilation);
      }
    }
  }
}

void CopyWithPadding(const PackedConvShape& s, const float* image, float* view) {
  const int64_t left = std::min(s.w.pad, s.w.reach);
  const int64_t inside = std::min(s.w.in, s.w.reach - left);
  for (int64_t c = 0; c < s.groups * s.channels; ++c, image += s.h.in * s.w.in) {
    for (int64_t h = 0; h < s.h.reach; ++h, view += s.w.reach) {
      const int64_t row = h - s.h.pad;
      if (row < 0 || row >= s.h.in) {
        std::fill(view, view + s.w.reach, 0.0F);
        continue;
      }
      std::fill(view, view + left, 0.0F);
      std::copy_n(image + row * s.w.in, inside, view + left);
      std::fill(view + left + inside, view + s.w.reach, 0.0F);
    }
  }
}

void CopyWithoutPadding(const PackedConvShape& s, const float* view, float* image) {
  const int64_t left = std::min(s.w.pad, s.w.reach);
  const int64_t inside = std::min(s.w.in, s.w.reach - left);
  for (int64_t c = 0; c < s.groups * s.channels; ++c, view += s.h.reach * s.w.reach) {
    for (int64_t h = 0; h < s.h.in; ++h, image += s.w.in) {
      const int64_t row = h + s.h.pad;
      const int64_t seen = row < s.h.reach ? inside : 0;
      if (seen > 0) std::copy_n(view + row * s.w.reach + left, seen, image);
      std::fill(image + seen, image + s.w.in, 0.0F);
    }
  }
}

}  // namespace packed_conv
}  // namespace crema
