// Levels of a spatial pyramid for one input shape; see spp.cc.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "core/strings.h"
#include "crema.pb.h"
#include "layers/pooling/pooling.h"

namespace crema {

constexpr size_t kMostSppLevels = 16;  // 2^15 bins per side

// One level, and the index of its first value in a sample of the output.
struct SppLevel {
  PoolPlanes pool;
  int64_t first;
};

// Rebuilt wherever it is needed, without allocating.
class SppLevels {
 public:
  void Add(const PoolPlanes& pool, int64_t channels) {
    levels_[size_].emplace(SppLevel{pool, values_});
    ++size_;
    values_ += channels * pool.out();
  }
  size_t size() const { return size_; }
  const SppLevel& operator[](size_t i) const { return *levels_[i]; }
  int64_t values() const { return values_; }  // per sample, over all levels

 private:
  std::array<std::optional<SppLevel>, kMostSppLevels> levels_;
  size_t size_ = 0;
  int64_t values_ = 0;
};

inline PoolAxis SppAxis(const Layer& layer, const Shape& shape, int axis, int64_t bins) {
  const int64_t kernel = (shape[axis] + bins - 1) / bins;
  const int64_t pad = (kernel * bins - shape[axis] + 1) / 2;
  if (pad >= kernel) {
    FailField(layer, "spp_param.pyramid_height",
              StrCat("axis ", axis, " of the input of shape ", ToString(shape),
                     " cannot be cut into ", bins, " bins: bins of ", kernel,
                     " would need padding of ", pad, "; use fewer levels, or larger inputs"));
  }
  return {.in = shape[axis], .kernel = kernel, .stride = kernel, .pad = pad};
}

inline PoolWindowNd SppWindow(const Layer& layer, const Shape& shape, int64_t bins) {
  PoolWindowNd window{.size = 2};
  window.axes[0] = SppAxis(layer, shape, 2, bins);
  window.axes[1] = SppAxis(layer, shape, 3, bins);
  const SPPParameter::PoolMethod method = layer.param().spp_param().pool();
  if (method == SPPParameter::STOCHASTIC && window.axes[0].pad + window.axes[1].pad > 0) {
    FailField(layer, "spp_param.pool",
              StrCat("STOCHASTIC takes no padding, so ", bins,
                     " bins must divide the sides of the input of shape ", ToString(shape)));
  }
  FitWindow(layer, shape, false, &window);
  if (method == SPPParameter::AVE) CheckAverageWindows(layer, window, shape);
  return window;
}

// Throws kInvalidArgument if the input does not fit the parameters.
inline SppLevels MakeSppLevels(const Layer& layer, const Shape& shape, Phase phase) {
  SppLevels levels;
  const SPPParameter& p = layer.param().spp_param();
  for (uint32_t i = 0; i < p.pyramid_height(); ++i) {
    const PoolWindowNd window = SppWindow(layer, shape, int64_t{1} << i);
    levels.Add(PoolPlanes(window, PoolMethodOf(p.pool(), phase), false), shape[1]);
  }
  return levels;
}

}  // namespace crema
