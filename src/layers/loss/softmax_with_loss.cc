// SoftmaxWithLoss: p = softmax(scores), cost_i = -sum_c t_ic ln max(p_ic, FLT_MIN),
// loss = sum_i w_i cost_i / normalizer, over the positions i whose label is not ignored.
// The target t_i is 1 - s at the label and s / (K - 1) at the K - 1 other classes, s being
// label_smoothing. The weight w_i is the factor of the class of the label (class_weights.h) times
// the value of input 2 at the position, if there is an input 2.
// dscores_ic = w_i (p_ic - t_ic) * dloss / normalizer, 0 at ignored positions.
// Labels in the shape of the scores are targets g_ic themselves, for example mixed ones: with G_i =
// sum_c g_ic, t_ic = (1 - s) g_ic + s / (K - 1) (G_i - g_ic), which is the rule above if g_i is 1
// at one class and 0 elsewhere. dscores_ic = w_i (p_ic G_i - t_ic) * dloss / normalizer.
#include "layers/loss/softmax_with_loss.h"

#include <algorithm>
#include <cfloat>
#include <cmath>

#include "core/parallel_for.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "layers/loss/class_weights.h"
#include "layers/loss/softmax_loss.h"
#include "layers/loss/softmax_target.h"
#include "math/reduce.h"

namespace crema {
namespace {

constexpr int64_t kGrain = 1 << 12;  // fewest elements per thread

// With this order of arguments NaN stays NaN.
template <typename T>
double LogOf(T p) {
  return std::log(static_cast<double>(std::max(p, T(FLT_MIN))));
}

template <typename T>
int64_t PositionGrain(const SoftmaxBatch<T>& batch) {
  return std::max<int64_t>(1, kGrain / std::max<int64_t>(1, batch.extent.classes));
}

using Target = SoftmaxTarget;

// -sum_c t_c ln p_c of one position.
template <typename T>
double Cost(const SoftmaxBatch<T>& batch, const Target& target, int64_t position) {
  const SoftmaxSize& extent = batch.extent;
  const T* prob = batch.prob + batch.First(position);
  const int64_t label = batch.Label(position);
  double cost = -target.at_label * LogOf(prob[label * extent.inner]);
  if (target.elsewhere == 0) return cost;
  for (int64_t c = 0; c < extent.classes; ++c) {
    if (c != label) cost -= target.elsewhere * LogOf(prob[c * extent.inner]);
  }
  return cost;
}

// Smoothed targets t_c of one position, computed from given targets.
template <typename T>
class GivenTargets {
 public:
  GivenTargets(const SoftmaxBatch<T>& batch, const Target& target, int64_t position)
      : values_(batch.targets + batch.First(position)), step_(batch.extent.inner), target_(target) {
    for (int64_t c = 0; c < batch.extent.classes; ++c) sum_ += Value(c);
  }
  double sum() const { return sum_; }
  double Of(int64_t c) const {
    return target_.at_label * Value(c) + target_.elsewhere * (sum_ - Value(c));
  }

 private:
  double Value(int64_t c) const { return static_cast<double>(values_[c * step_]); }

  const T* values_;
  const int64_t step_;
  const Target target_;
  double sum_ = 0;
};

template <typename T>
double CostOfTargets(const SoftmaxBatch<T>& batch, const Target& target, int64_t position) {
  const GivenTargets<T> given(batch, target, position);
  const T* prob = batch.prob + batch.First(position);
  double cost = 0;
  for (int64_t c = 0; c < batch.extent.classes; ++c) {
    const double t = given.Of(c);
    if (t > 0) cost -= t * LogOf(prob[c * batch.extent.inner]);
  }
  return cost;
}

// Returns the value of input 2 at a position, or 1 without input 2. Targets have no class factors.
template <typename T>
double GivenWeight(const SoftmaxBatch<T>& batch, int64_t position) {
  if (batch.inputs.size() < 3) return 1;
  return static_cast<double>(batch.inputs[2].template data<T>()[position]);
}

// Factors on the cost of each position, for labels.
template <typename T>
class PositionWeights {
 public:
  PositionWeights(const ClassWeights& classes, const SoftmaxBatch<T>& batch)
      : batch_(batch), any_(classes.any() || batch.inputs.size() > 2) {
    classes.Factors(std::span(batch.labels, static_cast<size_t>(batch.positions())), batch.ignored,
                    batch.class_scratch);
    if (batch.inputs.size() > 2) given_ = batch.inputs[2].template data<T>();
  }

  bool any() const { return any_; }
  double Of(int64_t position) const {
    const double factor = batch_.class_scratch[static_cast<size_t>(batch_.Label(position))];
    return given_ == nullptr ? factor : factor * static_cast<double>(given_[position]);
  }

 private:
  const SoftmaxBatch<T>& batch_;
  const bool any_;
  const T* given_ = nullptr;
};

// Corrects the gradient of one position: its weight and the class of the label.
template <typename T>
void MendPosition(const SoftmaxBatch<T>& batch, const Target& target, double scale, double weight,
                  int64_t position, T* dx) {
  const SoftmaxSize& extent = batch.extent;
  const int64_t first = batch.First(position);
  if (weight != 1) {
    for (int64_t c = 0; c < extent.classes; ++c) dx[first + c * extent.inner] *= T(weight);
  }
  const int64_t i = first + batch.Label(position) * extent.inner;
  dx[i] = (batch.prob[i] - static_cast<T>(target.at_label)) * static_cast<T>(scale * weight);
}

class SoftmaxWithLoss final : public SoftmaxLoss {
 public:
  explicit SoftmaxWithLoss(const LayerParameter& param)
      : SoftmaxLoss(param, param.softmax_param().axis(), "softmax_param.axis"),
        smoothing_(param.loss_param().label_smoothing()),
        class_weights_(*this) {
    if (!(smoothing_ >= 0 && smoothing_ < 1)) {
      FailField(*this, "loss_param.label_smoothing",
                StrCat("label_smoothing is ", smoothing_, ", expected 0 or more and less than 1"));
    }
  }

 private:
  bool takes_targets() const override { return true; }

  void CheckRule(const InferContext& context, const SoftmaxSize& extent) const override {
    class_weights_.CheckCount(*this, extent.classes);
    if (class_weights_.any() && extent.classes > 1 &&
        context.inputs[1].shape == context.inputs[0].shape) {
      FailField(
          *this, "loss_param.class_weight",
          "weights of classes need one label for each position, but the labels have the shape "
          "of the scores, a target for each class (from mixup or cutmix?): remove the weights");
    }
    if (context.inputs.size() < 3) return;
    const Shape& weights = context.inputs[2].shape;
    if (weights.count() == extent.outer * extent.inner) return;
    FailInputs(*this, StrCat("the third bottom holds a weight for each of the ",
                             extent.outer * extent.inner, " positions, but its shape is ",
                             ToString(weights)));
  }

  double Sum(const SoftmaxBatch<float>& batch) const override { return SumOf(batch); }
  double Sum(const SoftmaxBatch<double>& batch) const override { return SumOf(batch); }
  void Gradient(const SoftmaxBatch<float>& batch, double scale, float* dx) const override {
    WriteGradient(batch, scale, dx);
  }
  void Gradient(const SoftmaxBatch<double>& batch, double scale, double* dx) const override {
    WriteGradient(batch, scale, dx);
  }

  Target TargetOf(const SoftmaxSize& extent) const {
    return SmoothedTarget(smoothing_, extent.classes);
  }

  template <typename T>
  double SumOf(const SoftmaxBatch<T>& batch) const {
    const Target target = TargetOf(batch.extent);
    if (batch.targets != nullptr) return SumOfTargets(batch, target);
    const PositionWeights<T> weights(class_weights_, batch);
    return OrderedSum(batch.threads, batch.positions(), kGrain, [&](int64_t begin, int64_t end) {
      double sum = 0;
      for (int64_t at = begin; at < end; ++at) {
        if (!batch.Ignores(at)) sum += weights.Of(at) * Cost(batch, target, at);
      }
      return sum;
    });
  }

  template <typename T>
  static double SumOfTargets(const SoftmaxBatch<T>& batch, const Target& target) {
    return OrderedSum(batch.threads, batch.positions(), PositionGrain(batch),
                      [&](int64_t begin, int64_t end) {
                        double sum = 0;
                        for (int64_t at = begin; at < end; ++at) {
                          sum += GivenWeight(batch, at) * CostOfTargets(batch, target, at);
                        }
                        return sum;
                      });
  }

  template <typename T>
  static void WriteGradientOfTargets(const SoftmaxBatch<T>& batch, const Target& target,
                                     double scale, T* dx) {
    const SoftmaxSize& extent = batch.extent;
    ParallelFor(batch.threads, batch.positions(), PositionGrain(batch),
                [&](int64_t begin, int64_t end, int) {
                  for (int64_t at = begin; at < end; ++at) {
                    const GivenTargets<T> given(batch, target, at);
                    const double factor = scale * GivenWeight(batch, at);
                    for (int64_t c = 0; c < extent.classes; ++c) {
                      const int64_t i = batch.First(at) + c * extent.inner;
                      const double p = static_cast<double>(batch.prob[i]);
                      dx[i] = static_cast<T>(factor * (p * given.sum() - given.Of(c)));
                    }
                  }
                });
  }

  // Writes the gradient of an unweighted position without a label, then corrects each position.
  template <typename T>
  void WriteGradient(const SoftmaxBatch<T>& batch, double scale, T* dx) const {
    const Target target = TargetOf(batch.extent);
    if (batch.targets != nullptr) return WriteGradientOfTargets(batch, target, scale, dx);
    const PositionWeights<T> weights(class_weights_, batch);
    const T elsewhere = static_cast<T>(target.elsewhere);
    const T factor = static_cast<T>(scale);
    const SoftmaxSize& extent = batch.extent;
    ParallelFor(batch.threads, batch.positions() * extent.classes, kGrain,
                [&](int64_t begin, int64_t end, int) {
                  for (int64_t i = begin; i < end; ++i)
                    dx[i] = (batch.prob[i] - elsewhere) * factor;
                });
    ParallelFor(batch.threads, batch.positions(), kGrain, [&](int64_t begin, int64_t end, int) {
      for (int64_t at = begin; at < end; ++at) {
        if (batch.Ignores(at)) {
          const int64_t first = batch.First(at);
          for (int64_t c = 0; c < extent.classes; ++c) dx[first + c * extent.inner] = 0;
        } else {
          MendPosition(batch, target, scale, weights.any() ? weights.Of(at) : 1.0, at, dx);
        }
      }
    });
  }

  const double smoothing_;
  const ClassWeights class_weights_;
};

}  // namespace

std::unique_ptr<const Layer> MakeSoftmaxWithLoss(const LayerParameter& param) {
  return std::make_unique<const SoftmaxWithLoss>(param);
}

}  // namespace crema
