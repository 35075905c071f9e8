// With n = (x - center) * inverse and y = scale * n + shift, and d = scale * dy:
//   dscale = sum dy * n over a channel; dshift = sum dy
//   dx = inverse * (d - sum d / N) - spread * n * sum(d * n) / N over a group of N elements,
// if center and inverse were computed from x; dx = inverse * d if they are constants.
#include "layers/normalization/group_normalize.h"

#include <algorithm>

#include "core/memory_format.h"
#include "crema.pb.h"

namespace crema {
namespace {

template <typename T>
const double* Widen(const T* values, int64_t count, double* to) {
  if (values == nullptr) return nullptr;
  std::copy_n(values, count, to);
  return to;
}

template <typename T>
void Add(const double* sums, int64_t count, T* to) {
  for (int64_t i = 0; i < count; ++i) to[i] += static_cast<T>(sums[i]);
}

}  // namespace

GroupLayout ChannelLayout(const Shape& shape, int axis) {
  if (axis >= shape.axes()) return {1, 1, 1, shape.count()};
  return {1, shape.count(0, axis), shape[axis], shape.count(axis + 1)};
}

GroupLayout BlockedChannelLayout(const Shape& shape) {
  const int64_t block = ChannelBlock();
  return {shape[1] / block, shape.count(2), block, 1, shape[0]};
}

GroupLayout LeadingLayout(const Shape& shape, int axis) {
  const int first = std::min(axis, shape.axes());
  return {shape.count(0, first), 1, 1, shape.count(first)};
}

FillerParameter FillerOr(bool given, const FillerParameter& filler, float value) {
  if (given) return filler;
  FillerParameter constant;
  constant.set_type("constant");
  constant.set_value(value);
  return constant;
}

double SumWithCount(RankSums* ranks, double n, std::span<double> sums) {
  sums.back() = n;
  if (ranks != nullptr) ranks->SumNow(sums);
  return std::max(1.0, sums.back());
}

int64_t GroupNormalizeForwardScratch(const NormLayout& layout) {
  return 3 * layout.channels.Groups();
}

int64_t GroupNormalizeBackwardScratch(const NormLayout& layout) {
  return layout.channels.Groups() + 3 * layout.groups.Groups() + 1;
}

template <typename T>
void NormalizeGroups(int threads, const NormLayout& layout, const GroupNormalizeForward<T>& pass,
                     double* scratch) {
  const int64_t channels = layout.channels.Groups();
  const double* scale = Widen(pass.scale, channels, scratch);
  const double* shift = Widen(pass.shift, channels, scratch + channels);
  if (scale == nullptr && shift == nullptr) {
    GroupNormalize(threads, layout.groups, pass.x, pass.center, pass.inverse, nullptr, pass.y);
    if (pass.normal != nullptr) std::copy_n(pass.y, layout.groups.Count(), pass.normal);
    return;
  }
  if (layout.groups == layout.channels) {
    // Computes both from x, and not y from `normal`, so that y has the same bits with and without
    // `normal`.
    if (pass.normal != nullptr) {
      GroupNormalize(threads, layout.groups, pass.x, pass.center, pass.inverse, nullptr,
                     pass.normal);
    }
    double* product = scratch + 2 * channels;
    for (int64_t g = 0; g < channels; ++g) {
      product[g] =
          (pass.inverse == nullptr ? 1 : pass.inverse[g]) * (scale == nullptr ? 1 : scale[g]);
    }
    GroupNormalize(threads, layout.groups, pass.x, pass.center, product, shift, pass.y);
    return;
  }
  T* normal = pass.normal == nullptr ? pass.y : pass.normal;
  GroupNormalize(threads, layout.groups, pass.x, pass.center, pass.inverse, nullptr, normal);
  GroupNormalize(threads, layout.channels, normal, nullptr, scale, shift, pass.y);
}

template <typename T>
void NormalizeGroups(int threads, const NormLayout& layout, const GroupNormalizeBackward<T>& pass,
                     double* scratch) {
  const GroupLayout& g = layout.groups;
  const int64_t channels = layout.channels.Groups();
  double* channel = scratch + 3 * g.Groups() + 1;
  if (pass.dscale != nullptr) {
    GroupDots(threads, layout.channels, pass.dy, pass.normal, channel);
    Add(channel, channels, pass.dscale);
  }
  if (pass.dshift != nullptr) {
    GroupSums(threads, layout.channels, pass.dy, channel);
    Add(channel, channels, pass.dshift);
  }
  if (pass.dx == nullptr) return;
  const double* scale = Widen(pass.scale, channels, channel);
  // If each group is a channel, the scale is folded into the coefficients.
  const bool folded = scale != nullptr && layout.groups == layout.channels;
  const T* d = pass.dy;
  if (scale != nullptr && !folded) {
    GroupCombine<T>(threads, layout.channels, scale, d, nullptr, nullptr, nullptr, pass.dx);
    d = pass.dx;
  }
  double* a = scratch;
  double* c = scratch + g.Groups();
  double* b = scratch + 2 * g.Groups();
  const bool spreads = pass.measured && pass.normal != nullptr;
  if (spreads) GroupDots(threads, g, d, pass.normal, b);
  if (pass.measured && pass.centered) GroupSums(threads, g, d, c);
  const double divisor =
      SumWithCount(pass.ranks, pass.divisor, {c, static_cast<size_t>(2 * g.Groups() + 1)});
  for (int64_t i = 0; i < g.Groups(); ++i) {
    const double factor = folded ? scale[i] : 1;
    const double inverse = pass.inverse == nullptr ? 1 : pass.inverse[i];
    const double spread = pass.spread == nullptr ? inverse : pass.spread[i];
    a[i] = factor * inverse;
    b[i] = spreads ? -factor * spread * b[i] / divisor : 0;
    c[i] = pass.measured && pass.centered ? -factor * inverse * c[i] / divisor : 0;
  }
  GroupCombine<T>(threads, g, a, d, b, spreads ? pass.normal : nullptr, c, pass.dx);
}

template void NormalizeGroups(int, const NormLayout&, const GroupNormalizeForward<float>&, double*);
template void NormalizeGroups(int, const NormLayout&, const GroupNormalizeForward<double>&,
                              double*);
template void NormalizeGroups(int, const NormLayout&, const GroupNormalizeBackward<float>&,
                              double*);
template void NormalizeGroups(int, const NormLayout&, const GroupNormalizeBackward<double>&,
                              double*);

}  // namespace crema
