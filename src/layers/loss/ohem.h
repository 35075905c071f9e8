// Losses of single regions and the choice of the hardest ones (R-FCN): BoxAnnotatorOHEM,
// SmoothL1LossOHEM and SoftmaxWithLossOHEM, for CPU and GPU. See ohem.cc.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <type_traits>

#include "crema.pb.h"
#include "graph/layer.h"
#include "layers/elements.h"
#include "layers/loss/labels.h"
#include "layers/loss/loss_normalizer.h"

namespace crema {

// Elements of any type as double, and back; types of the GPU convert through float.
template <typename T>
CREMA_HOST_DEVICE double ValueOf(const T& element) {
  if constexpr (std::is_same_v<T, double>) return element;
  return static_cast<double>(static_cast<float>(element));
}
template <typename T>
CREMA_HOST_DEVICE T ElementOf(double value) {
  if constexpr (std::is_same_v<T, double>) return value;
  return static_cast<T>(static_cast<float>(value));
}

// A region is a position: N x C x inner, C values apart by `inner`.
struct RegionSize {
  int64_t outer = 0;
  int64_t values = 0;
  int64_t inner = 1;

  CREMA_HOST_DEVICE int64_t count() const { return outer * inner; }
  CREMA_HOST_DEVICE int64_t First(int64_t region) const {
    return region / inner * values * inner + region % inner;
  }
};

// Returns the sizes of a blob with at least two axes.
inline RegionSize RegionsOf(const Shape& shape) { return {shape[0], shape[1], shape.count(2)}; }

// Inputs 0 to 3 of BoxAnnotatorOHEM.
template <typename T>
struct RegionChoice {
  RegionChoice(const Layer& layer, std::span<const ConstTensorView> inputs)
      : rois(Elements<T>(inputs[0])),
        losses(Elements<T>(inputs[1])),
        size(RegionsOf(inputs[0].shape())),
        most(layer.param().box_annotator_ohem_param().roi_per_img()) {}

  // NaN counts as the smallest loss.
  CREMA_HOST_DEVICE double Loss(int64_t region) const {
    const double loss = ValueOf(losses[region]);
    return loss == loss ? loss : -std::numeric_limits<double>::infinity();
  }
  CREMA_HOST_DEVICE double Image(int64_t region) const { return ValueOf(rois[size.First(region)]); }

  // Returns true if fewer than `most` regions of the same image have a larger loss, or an equal one
  // and come before.
  CREMA_HOST_DEVICE bool Chooses(int64_t region) const {
    const double own = Loss(region);
    int64_t before = 0;
    for (int64_t other = 0; other < size.count() && before < most; ++other) {
      if (Image(other) != Image(region)) continue;
      const double loss = Loss(other);
      before += loss > own || (loss == own && other < region) ? 1 : 0;
    }
    return before < most;
  }

  const T* rois;
  const T* losses;
  RegionSize size;
  int64_t most;  // of an image
};

// Inputs of SmoothL1LossOHEM.
template <typename T>
struct SmoothRegions {
  explicit SmoothRegions(std::span<const ConstTensorView> inputs)
      : a(Elements<T>(inputs[0])),
        b(Elements<T>(inputs[1])),
        weights(inputs.size() > 2 ? Elements<T>(inputs[2]) : nullptr),
        size(RegionsOf(inputs[0].shape())) {}

  CREMA_HOST_DEVICE double Weight(int64_t i) const {
    return weights == nullptr ? 1 : ValueOf(weights[i]);
  }
  CREMA_HOST_DEVICE double Difference(int64_t i) const {
    return Weight(i) * (ValueOf(a[i]) - ValueOf(b[i]));
  }
  CREMA_HOST_DEVICE double Cost(int64_t region) const {
    double sum = 0;
    for (int64_t c = 0; c < size.values; ++c) {
      const double d = std::abs(Difference(size.First(region) + c * size.inner));
      sum += d < 1 ? d * d / 2 : d - 0.5;
    }
    return sum;
  }
  // `slope` is the gradient of the cost of the region; that of b has the other sign.
  CREMA_HOST_DEVICE void WriteGradient(int64_t region, double slope, T* dx) const {
    for (int64_t c = 0; c < size.values; ++c) {
      const int64_t i = size.First(region) + c * size.inner;
      const double d = Difference(i);
      const double bounded = d > 1 ? 1 : d < -1 ? -1 : d;
      dx[i] = ElementOf<T>(slope * Weight(i) * bounded);
    }
  }

  const T* a;
  const T* b;
  const T* weights;
  RegionSize size;
};

// Scores and labels of SoftmaxWithLossOHEM.
template <typename T>
struct SoftmaxRegions {
  SoftmaxRegions(const RegionSize& sizes, const Layer& layer,
                 std::span<const ConstTensorView> inputs)
      : scores(Elements<T>(inputs[0])),
        labels(Elements<T>(inputs[1]), sizes.values, IgnoredLabel(layer.param().loss_param())),
        size(sizes) {}

  CREMA_HOST_DEVICE double Score(int64_t region, int64_t c) const {
    return ValueOf(scores[size.First(region) + c * size.inner]);
  }
  // Returns ln sum_c exp(score_c).
  CREMA_HOST_DEVICE double LogSum(int64_t region) const {
    double most = Score(region, 0);
    for (int64_t c = 1; c < size.values; ++c) {
      if (Score(region, c) > most) most = Score(region, c);
    }
    double sum = 0;
    for (int64_t c = 0; c < size.values; ++c) sum += std::exp(Score(region, c) - most);
    return most + std::log(sum);
  }
  CREMA_HOST_DEVICE double Cost(int64_t region) const {
    constexpr double kMost = 87.33654475;  // -ln FLT_MIN
    const int64_t label = labels(region);
    if (label < 0) return label == kIgnoredLabel ? 0 : static_cast<double>(NotANumber());
    const double cost = LogSum(region) - Score(region, label);
    return cost > kMost ? kMost : cost;
  }
  CREMA_HOST_DEVICE void WriteProbabilities(int64_t region, T* out) const {
    const double log_sum = LogSum(region);
    for (int64_t c = 0; c < size.values; ++c) {
      out[size.First(region) + c * size.inner] = ElementOf<T>(std::exp(Score(region, c) - log_sum));
    }
  }
  // `slope` is the gradient of the cost of the region, `dp` that of the probabilities or null.
  CREMA_HOST_DEVICE void WriteGradient(int64_t region, double slope, const T* dp, T* dx) const {
    const double log_sum = LogSum(region);
    const int64_t first = size.First(region), label = labels(region);
    double dot = 0;
    for (int64_t c = 0; c < size.values && dp != nullptr; ++c) {
      dot += std::exp(Score(region, c) - log_sum) * ValueOf(dp[first + c * size.inner]);
    }
    for (int64_t c = 0; c < size.values; ++c) {
      const int64_t i = first + c * size.inner;
      const double p = std::exp(Score(region, c) - log_sum);
      double value = label < 0 ? 0 : slope * (p - (c == label ? 1 : 0));
      if (dp != nullptr) value += p * (ValueOf(dp[i]) - dot);
      dx[i] = ElementOf<T>(value);
    }
  }

  const T* scores;
  ClassLabels<T, float> labels;
  RegionSize size;
};

// Returns the divisor of SmoothL1LossOHEM: no region is ignored.
inline double OhemDivisor(const LossNormalizer& normalizer, const RegionSize& size) {
  return normalizer.Divisor({.outer = size.outer, .all = size.count(), .counted = size.count()});
}

// Returns the sizes with the classes on softmax_param.axis. Throws an error of the field.
inline RegionSize ScoreRegions(const Layer& layer, const Shape& scores) {
  const SoftmaxSize size =
      ClassSize(layer, scores, layer.param().softmax_param().axis(), "softmax_param.axis");
  return {size.outer, size.classes, size.inner};
}

}  // namespace crema
