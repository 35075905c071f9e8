// Shared base of the losses of softmax(scores): SoftmaxWithLoss, InfogainLoss, FocalLoss.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "graph/layer.h"
#include "layers/loss/loss_normalizer.h"
#include "math/softmax.h"

namespace crema {

// Data of one batch, as passed to the rule of a loss.
template <typename T>
struct SoftmaxBatch {
  int threads = 1;
  SoftmaxSize sizes;
  std::optional<int32_t> ignored;
  const T* prob = nullptr;
  const T* labels = nullptr;  // valid, one per position; null with targets
  // Targets, for rules that support them: valid, in the shape of the scores. No position is then
  // ignored. Null with labels.
  const T* targets = nullptr;
  std::span<const ConstTensorView> inputs;
  std::span<double> class_scratch;  // one value per class

  int64_t positions() const { return sizes.outer * sizes.inner; }
  // Returns the index of class 0 at a position; classes are sizes.inner apart.
  int64_t First(int64_t position) const {
    return position / sizes.inner * sizes.classes * sizes.inner + position % sizes.inner;
  }
  bool Ignores(int64_t position) const {
    return ignored && targets == nullptr && static_cast<double>(labels[position]) == *ignored;
  }
  int64_t Label(int64_t position) const { return static_cast<int64_t>(labels[position]); }
};

// Inputs: scores, labels (or targets of all classes), and further inputs of the rule. Output 0 is
// the sum of the rule over the positions that are not ignored, divided by the normalizer. Output 1,
// if present, is the softmax of the scores; its gradient is added.
class SoftmaxLoss : public Layer {
 public:
  LayerInfo Infer(const InferContext& context) const final;
  size_t ForwardScratch(const InferContext& context, const LayerInfo& info, int) const final;
  size_t BackwardScratch(const InferContext& context, const LayerInfo& info, int) const final;
  void Forward(const ForwardArgs& args) const final;
  void Backward(const BackwardArgs& args) const final;

  SoftmaxSize SizesOf(const Shape& scores) const;
  // With one class, labels of the scores' shape are class labels, not targets.
  bool AreTargets(const Shape& scores, const Shape& labels) const {
    return takes_targets() && scores == labels && SizesOf(scores).classes > 1;
  }
  const std::optional<int32_t>& ignored() const { return ignored_; }
  const LossNormalizer& normalizer() const { return normalizer_; }

 protected:
  SoftmaxLoss(const LayerParameter& param, int axis, std::string axis_field);

  // Returns true if the labels may be a target for each class, in the shape of the scores.
  virtual bool takes_targets() const { return false; }
  // Checks inputs from 2 on, and the number of classes.
  virtual void CheckRule(const InferContext&, const SoftmaxSize&) const {}
  virtual double Sum(const SoftmaxBatch<float>& batch) const = 0;
  virtual double Sum(const SoftmaxBatch<double>& batch) const = 0;
  virtual void Gradient(const SoftmaxBatch<float>& batch, double scale, float* dx) const = 0;
  virtual void Gradient(const SoftmaxBatch<double>& batch, double scale, double* dx) const = 0;

 private:
  // Sets `labels` or `targets` of the batch, depending on the shape.
  template <typename T>
  void SetLabels(const Shape& scores, const ConstTensorView& labels, SoftmaxBatch<T>* batch) const;
  // Checks the labels. Returns the normalizer.
  double Divisor(const Shape& scores, const ConstTensorView& labels) const;

  const int axis_;
  const std::string axis_field_;
  const std::optional<int32_t> ignored_;
  const LossNormalizer normalizer_;
};

// Base of a loss with
//   double SumOf(batch): the sum of the rule over the positions that are not ignored;
//   void WriteGradient(batch, scale, dx): dx = scale * d sum / d scores, 0 at ignored positions.
template <typename Loss>
class SoftmaxLossOf : public SoftmaxLoss {
 protected:
  using SoftmaxLoss::SoftmaxLoss;

 private:
  double Sum(const SoftmaxBatch<float>& batch) const final { return loss().SumOf(batch); }
  double Sum(const SoftmaxBatch<double>& batch) const final { return loss().SumOf(batch); }
  void Gradient(const SoftmaxBatch<float>& batch, double scale, float* dx) const final {
    loss().WriteGradient(batch, scale, dx);
  }
  void Gradient(const SoftmaxBatch<double>& batch, double scale, double* dx) const final {
    loss().WriteGradient(batch, scale, dx);
  }
  const Loss& loss() const { return static_cast<const Loss&>(*this); }
};

}  // namespace crema
