// SoftmaxWithLoss and WeightedSoftmaxWithLoss on the GPU; see softmax_with_loss.cc.
#include <cfloat>

#include "crema.pb.h"
#include "layers/loss/class_weights.h"
#include "layers/loss/softmax_loss.cuh"
#include "layers/loss/softmax_rules.h"

namespace crema {
namespace {

// Part of a host list, passed as a kernel argument.
struct ListPiece {
  static constexpr int64_t kMost = 256;
  float values[kMost];
};

void WriteList(const CudaQueue& queue, std::span<const double> list, float* to) {
  const auto size = static_cast<int64_t>(list.size());
  for (int64_t begin = 0; begin < size; begin += ListPiece::kMost) {
    const int64_t count = std::min(size - begin, ListPiece::kMost);
    ListPiece piece{};
    for (int64_t i = 0; i < count; ++i) {
      piece.values[i] = static_cast<float>(list[static_cast<size_t>(begin + i)]);
    }
    ForElements(queue, "WriteList", count,
                [=] CREMA_HOST_DEVICE(int64_t i) { to[begin + i] = piece.values[i]; });
  }
}

// One team per class counts its labels; then one team converts the counts to factors
// (class_weights.h).
template <typename T>
void WriteBalanced(const CudaQueue& queue, const GpuLabels<T>& labels, int64_t positions,
                   float* factors) {
  const int64_t classes = labels.classes;
  ForTeams(queue, "CountLabels", classes, [=] CREMA_HOST_DEVICE(const Team& team, int64_t c) {
    const int64_t count =
        team.Sum(positions, [&](int64_t i) { return static_cast<int64_t>(labels(i) == c); });
    team.For(1, [&](int64_t) { factors[c] = static_cast<float>(count); });
  });
  ForTeams(queue, "BalanceClasses", 1, [=] CREMA_HOST_DEVICE(const Team& team, int64_t) {
    const float all = team.Sum(classes, [&](int64_t c) { return factors[c]; });
    const float held = team.Sum(classes, [&](int64_t c) { return factors[c] > 0 ? 1.0f : 0.0f; });
    team.For(classes, [&](int64_t c) {
      if (factors[c] > 0) factors[c] = all / (held * factors[c]);
    });
  });
}

// Returns the factors of the classes, or null if there are none.
template <typename T>
const float* WriteFactors(const SoftmaxInputs<T>& given) {
  const ClassWeights weights(given.layer);
  if (!weights.any()) return nullptr;
  float* factors = given.cutter->template Take<float>(given.sizes.classes);
  if (weights.balanced()) {
    WriteBalanced(given.queue, given.labels, given.positions(), factors);
  } else {
    WriteList(given.queue, weights.list(), factors);
  }
  return factors;
}

// A Rule as described in softmax_loss.cuh.
template <typename T>
struct CrossEntropy {
  GpuLabels<T> labels;             // null data with targets
  const T* targets = nullptr;      // in the shape of the scores; null with labels
  const T* weights;                // one per position; null means 1
  const float* factors = nullptr;  // one per class; null means 1
  float at_label, elsewhere;
  SoftmaxSize sizes;

  explicit CrossEntropy(const SoftmaxInputs<T>& given)
      : labels(given.labels),
        weights(given.inputs.size() > 2 ? Elements<T>(given.inputs[2]) : nullptr),
        sizes(given.sizes) {
    const SoftmaxTarget target =
        SmoothedTarget(given.layer.param().loss_param().label_smoothing(), sizes.classes);
    at_label = static_cast<float>(target.at_label);
    elsewhere = static_cast<float>(target.elsewhere);
    if (labels.data == nullptr) {
      targets = Elements<T>(given.inputs[1]);
    } else {
      factors = WriteFactors(given);
    }
  }

  struct Prepared {
    int64_t label;
    float weight;
    float sum;  // sum of the targets
  };

  // NaN stays NaN.
  CREMA_HOST_DEVICE static float Floored(float log_p) {
    constexpr float kLeast = -87.33654475f;  // ln FLT_MIN
    return log_p < kLeast ? kLeast : log_p;
  }

  CREMA_HOST_DEVICE float WeightOf(int64_t position, int64_t label) const {
    const float given = weights == nullptr ? 1 : ToFloat(weights[position]);
    return factors == nullptr || label < 0 ? given : given * factors[label];
  }

  CREMA_HOST_DEVICE float Value(int64_t position, int64_t c) const {
    return ToFloat(targets[FirstClass(sizes, position) + c * sizes.inner]);
  }

  CREMA_HOST_DEVICE float Target(int64_t position, int64_t c, float sum) const {
    const float value = Value(position, c);
    return at_label * value + elsewhere * (sum - value);
  }

  template <typename Workers>
  CREMA_HOST_DEVICE float SumOfTargets(const Workers& workers, int64_t position) const {
    return workers.Sum(sizes.classes, [&](int64_t c) { return Value(position, c); });
  }

  // Returns NaN if CheckTargets would reject a target.
  template <typename Workers, typename LogP>
  CREMA_HOST_DEVICE float CostOfTargets(const Workers& workers, int64_t position,
                                        const LogP& log_p) const {
    const float sum = SumOfTargets(workers, position);
    return workers.Sum(sizes.classes, [&](int64_t c) {
      if (!(Value(position, c) >= 0 && Value(position, c) <= FLT_MAX)) return NotANumber();
      const float t = Target(position, c, sum);
      return t > 0 ? -t * Floored(log_p(c)) : 0.0f;
    });
  }

  template <typename Workers, typename LogP>
  CREMA_HOST_DEVICE float Cost(const Workers& workers, int64_t position, const LogP& log_p) const {
    if (targets != nullptr) {
      return WeightOf(position, -1) * CostOfTargets(workers, position, log_p);
    }
    const int64_t label = labels(position);
    if (label < 0) return label == kIgnoredLabel ? 0 : NotANumber();
    float cost = -at_label * Floored(log_p(label));
    if (elsewhere != 0) {
      cost -= elsewhere * workers.Sum(sizes.classes, [&](int64_t c) {
        return c == label ? 0.0f : Floored(log_p(c));
      });
    }
    return WeightOf(position, label) * cost;
  }

  template <typename Workers, typename P>
  CREMA_HOST_DEVICE Prepared Prepare(const Workers& workers, int64_t position, const P&) const {
    if (targets != nullptr) return {0, WeightOf(position, -1), SumOfTargets(workers, position)};
    const int64_t label = labels(position);
    return {label, WeightOf(position, label), 1};
  }

  CREMA_HOST_DEVICE float Slope(const Prepared& prepared, int64_t position, int64_t c,
                                float p) const {
    if (prepared.label < 0) return 0;
    float target = c == prepared.label ? at_label : elsewhere;
    if (targets != nullptr) target = Target(position, c, prepared.sum);
    return prepared.weight * (p * prepared.sum - target);
  }
};

}  // namespace

void RegisterSoftmaxWithLossCuda(Registry& registry) {
  registry.AddImplementation("SoftmaxWithLoss", MakeSoftmaxLossImplementation<CrossEntropy, 1>());
  registry.AddImplementation("WeightedSoftmaxWithLoss",
                             MakeSoftmaxLossImplementation<CrossEntropy, 1>());
}

}  // namespace crema
