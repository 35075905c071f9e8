// Shared by the GPU implementations of normalisation layers: group_normalize.h and group_stats.h on
// the GPU.
#pragma once

#include "layers/normalization/group_normalize.h"
#include "math/cuda/group_sums.cuh"
#include "math/relu_rule.h"
#include "math/scratch.h"

namespace crema {

// Terms of the moments: differences from the first element of a group, and their squares. Reads the
// first element once.
template <typename T>
struct MomentTerm {
  struct InGroup {
    CREMA_HOST_DEVICE float Read(int64_t, int64_t at) const { return ToFloat(x[at]); }
    CREMA_HOST_DEVICE SumPair Take(int64_t, int64_t, float value) const {
      const double d = static_cast<double>(value) - first;
      return {d, d * d};
    }
    const T* x;
    double first;
  };
  CREMA_HOST_DEVICE InGroup OfGroup(int64_t g) const {
    return {x, any ? static_cast<double>(ToFloat(x[ElementOfGroup(groups, g, 0)])) : 0};
  }
  GroupLayout groups;
  const T* x;
  bool any;  // groups have elements
};

// Calls finish(group, mean, variance) for each group, in one thread. In f64 the differences lose
// nothing by being squared before the mean is known.
template <typename T, typename Finish>
static void GroupMoments(const CudaQueue& queue, const GroupLayout& groups, const T* x,
                         SumPair* scratch, const Finish& finish) {
  const auto size = static_cast<double>(std::max<int64_t>(1, groups.GroupSize()));
  const MomentTerm<T> term{groups, x, groups.GroupSize() > 0};
  SumGroups(queue, groups, term, scratch, [=] CREMA_HOST_DEVICE(int64_t g, SumPair sums) {
    const double offset = sums.first / size;
    const double variance = sums.second / size - offset * offset;
    finish(g, term.OfGroup(g).first + offset, variance < 0 ? 0 : variance);
  });
}

// Coefficients are per group, scales and shifts per channel.
template <typename T>
struct NormForward {
  const T* x = nullptr;
  const float* center = nullptr;  // null means 0
  const float* inverse = nullptr;
  const T* scale = nullptr;  // null means 1
  const T* shift = nullptr;  // null means 0
  bool relu = false;
  float slope = 0;
  T* normal = nullptr;  // null means not needed
  T* y = nullptr;       // may be x
};

// An element of NormalizeForward.
template <typename T>
struct NormForwardElement {
  struct Values {
    float normal, y;
  };
  CREMA_HOST_DEVICE Values Read(int64_t i) const {
    const int64_t g = GroupOfElement(layout.groups, i);
    const float center = pass.center == nullptr ? 0 : pass.center[g];
    const float normal = (ToFloat(pass.x[i]) - center) * pass.inverse[g];
    float value = normal;
    if (pass.scale != nullptr || pass.shift != nullptr) {
      const int64_t c = same ? g : GroupOfElement(layout.channels, i);
      if (pass.scale != nullptr) value *= ToFloat(pass.scale[c]);
      if (pass.shift != nullptr) value += ToFloat(pass.shift[c]);
    }
    if (pass.relu) ApplyRelu(pass.slope, &value);
    return {normal, value};
  }
  CREMA_HOST_DEVICE void Write(int64_t i, Values values) const {
    if (pass.normal != nullptr) pass.normal[i] = FromFloat<T>(values.normal);
    pass.y[i] = FromFloat<T>(values.y);
  }
  NormLayout layout;
  NormForward<T> pass;
  bool same;  // each group is a channel
};

template <typename T>
static void NormalizeForward(const CudaQueue& queue, const NormLayout& layout,
                             const NormForward<T>& pass) {
  ForElementsAhead(queue, "NormalizeForward", layout.groups.Count(),
                   NormForwardElement<T>{layout, pass, layout.groups == layout.channels});
}

// Uses the formulas of group_normalize.cc.
template <typename T>
struct NormBackward {
  const T* dy = nullptr;
  const T* y = nullptr;  // output of a ReLU after the norm; null without one
  float slope = 0;       // of the ReLU
  const T* normal = nullptr;
  const double* inverse = nullptr;
  const double* spread = nullptr;
  const T* scale = nullptr;  // null means 1
  T* dx = nullptr;           // null means not needed; may be dy
  T* dscale = nullptr;
  T* dshift = nullptr;
  bool measured = true;
  bool centered = true;
  double divisor = 1;

  CREMA_HOST_DEVICE float Gradient(int64_t i) const {
    float d = ToFloat(dy[i]);
    if (y != nullptr) MaskByRelu(slope, ToFloat(y[i]), &d);
    return d;
  }
  CREMA_HOST_DEVICE SumPair Terms(int64_t i, float factor) const {
    const double d = static_cast<double>(factor) * Gradient(i);
    return {d, normal == nullptr ? 0 : d * static_cast<double>(ToFloat(normal[i]))};
  }
};

// dx = a * (d - c) + b * normal, per group.
struct NormCoefficients {
  float *a, *b, *c;
};

template <typename T>
CREMA_HOST_DEVICE void SetCoefficients(const NormBackward<T>& pass, int64_t g, double factor,
                                       SumPair sums, const NormCoefficients& to) {
  const double inverse = pass.inverse[g];
  const bool spreads = pass.measured && pass.normal != nullptr;
  const bool centers = pass.measured && pass.centered;
  to.a[g] = static_cast<float>(factor * inverse);
  to.b[g] = static_cast<float>(spreads ? -factor * pass.spread[g] * sums.second / pass.divisor : 0);
  to.c[g] = static_cast<float>(centers ? sums.first / pass.divisor : 0);
}

template <typename T>
CREMA_HOST_DEVICE void AddParameterGradients(const NormBackward<T>& pass, int64_t channel,
                                             SumPair sums) {
  const auto add = [&](T* to, double sum) {
    if (to != nullptr) to[channel] = FromFloat<T>(ToFloat(to[channel]) + static_cast<float>(sum));
  };
  add(pass.dscale, sums.second);
  add(pass.dshift, sums.first);
}

// If each group is a channel, one pass over the elements gives all sums.
template <typename T>
static void SumChannels(const CudaQueue& queue, const NormLayout& layout,
                        const NormBackward<T>& pass, SumPair* scratch, const NormCoefficients& to) {
  const auto finish = [=] CREMA_HOST_DEVICE(int64_t g, SumPair sums) {
    AddParameterGradients(pass, g, sums);
    const double factor = pass.scale == nullptr ? 1 : static_cast<double>(ToFloat(pass.scale[g]));
    if (pass.dx != nullptr) SetCoefficients(pass, g, factor, sums, to);
  };
  if (!pass.measured && pass.dscale == nullptr && pass.dshift == nullptr) {
    return ForElements(queue, "NormConstants", layout.groups.Groups(),
                       [=] CREMA_HOST_DEVICE(int64_t g) { finish(g, SumPair{}); });
  }
  SumGroups(
      queue, layout.groups,
      [=] CREMA_HOST_DEVICE(int64_t, int64_t at) { return pass.Terms(at, 1); }, scratch, finish);
}

template <typename T>
static void SumBoth(const CudaQueue& queue, const NormLayout& layout, const NormBackward<T>& pass,
                    SumPair* scratch, const NormCoefficients& to) {
  if (pass.dscale != nullptr || pass.dshift != nullptr) {
    SumGroups(
        queue, layout.channels,
        [=] CREMA_HOST_DEVICE(int64_t, int64_t at) { return pass.Terms(at, 1); }, scratch,
        [=] CREMA_HOST_DEVICE(int64_t c, SumPair sums) { AddParameterGradients(pass, c, sums); });
  }
  if (pass.dx == nullptr) return;
  const GroupLayout channels = layout.channels;
  SumGroups(
      queue, layout.groups,
      [=] CREMA_HOST_DEVICE(int64_t, int64_t at) {
        const int64_t c = pass.scale == nullptr ? 0 : GroupOfElement(channels, at);
        return pass.Terms(at, pass.scale == nullptr ? 1 : ToFloat(pass.scale[c]));
      },
      scratch,
      [=] CREMA_HOST_DEVICE(int64_t g, SumPair sums) { SetCoefficients(pass, g, 1, sums, to); });
}

inline size_t NormForwardScratch(const NormLayout& layout) {
  return ScratchBytes<SumPair>(GroupSumsScratch(layout.groups)) +
         2 * ScratchBytes<float>(layout.groups.Groups()) + kScratchSlack;
}

inline int64_t NormBackwardSums(const NormLayout& layout) {
  return std::max(GroupSumsScratch(layout.groups), GroupSumsScratch(layout.channels));
}
inline size_t NormBackwardScratch(const NormLayout& layout) {
  return ScratchBytes<SumPair>(NormBackwardSums(layout)) +
         3 * ScratchBytes<float>(layout.groups.Groups()) + kScratchSlack;
}

template <typename T>
static void NormalizeBackward(const CudaQueue& queue, const NormLayout& layout,
                              const NormBackward<T>& pass, std::span<std::byte> memory) {
  ScratchCutter cutter(memory);
  auto* scratch = cutter.Take<SumPair>(NormBackwardSums(layout));
  const int64_t groups = layout.groups.Groups();
  const NormCoefficients by{cutter.Take<float>(groups), cutter.Take<float>(groups),
                            cutter.Take<float>(groups)};
  const bool same = layout.groups == layout.channels;
  (same ? SumChannels<T> : SumBoth<T>)(queue, layout, pass, scratch, by);
  if (pass.dx == nullptr) return;
  const bool scales = pass.scale != nullptr && !same;  // otherwise `a` includes the scale
  SetElements(queue, "NormalizeBackward", layout.groups.Count(), pass.dx,
              [=] CREMA_HOST_DEVICE(int64_t i) {
                const int64_t g = GroupOfElement(layout.groups, i);
                float d = pass.Gradient(i);
                if (scales) d *= ToFloat(pass.scale[GroupOfElement(layout.channels, i)]);
                const float n = pass.normal == nullptr ? 0 : ToFloat(pass.normal[i]);
                return by.a[g] * (d - by.c[g]) + by.b[g] * n;
              });
}

}  // namespace crema
