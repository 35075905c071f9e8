// GPU version of SoftmaxLoss (softmax_loss.h), shared by SoftmaxWithLoss, InfogainLoss and
// FocalLoss.
//
// A `Rule` computes the cost of a position. It is copied to the device. W is the set of threads of
// a position:
//   float Cost(const W&, int64_t position, log_p), log_p(c) being the logarithm of p;
//   auto Prepare(const W&, int64_t position, p), p(c) being p; the result is passed to Slope;
//   float Slope(prepared, int64_t position, int64_t c, float p): d cost / d score c.
// A `Maker` makes a Rule. It has SizesOf(layer, scores), Scratch(layer, extent) in bytes,
// `targets`, and Make<T>(queue, layer, extent, labels, inputs, cutter). Logarithms are computed
// from the scores, because the stored p may be a half.
#pragma once

#include "crema.pb.h"
#include "layers/loss/gpu_loss.cuh"
#include "layers/loss/positions.cuh"

namespace crema {

template <typename T, typename Rule>
struct SoftmaxCosts {
  SoftmaxSize extent;
  Rule rule;
  const T* scores;
  T* prob;       // null if not wanted
  float* costs;  // one per position

  template <typename Workers>
  CREMA_HOST_DEVICE void operator()(const Workers& workers, int64_t position) const {
    const T* x = scores + FirstClass(extent, position);
    const int64_t step = extent.inner;
    const float most = workers.Max(extent.classes, -std::numeric_limits<float>::infinity(),
                                   [&](int64_t c) { return ToFloat(x[c * step]); });
    const float sum = workers.Sum(extent.classes,
                                  [&](int64_t c) { return std::exp(ToFloat(x[c * step]) - most); });
    if (prob != nullptr) {
      T* p = prob + FirstClass(extent, position);
      workers.For(extent.classes, [&](int64_t c) {
        p[c * step] = FromFloat<T>(std::exp(ToFloat(x[c * step]) - most) / sum);
      });
    }
    const float log_sum = std::log(sum);
    const float cost = rule.Cost(workers, position,
                                 [&](int64_t c) { return ToFloat(x[c * step]) - most - log_sum; });
    workers.For(1, [&](int64_t) { costs[position] = cost; });
  }
};

template <typename T, typename Rule>
struct SoftmaxSlopes {
  SoftmaxSize extent;
  Rule rule;
  GpuDivisor divisor;
  const T* prob;
  const T* dloss;
  const T* dprob;  // gradient of the probabilities; null means none
  T* dx;

  template <typename Workers>
  CREMA_HOST_DEVICE void operator()(const Workers& workers, int64_t position) const {
    const int64_t first = FirstClass(extent, position), step = extent.inner;
    const float scale = ToFloat(dloss[0]) / divisor.Value();
    const auto p = [&](int64_t c) { return ToFloat(prob[first + c * step]); };
    const auto dp = [&](int64_t c) {
      return dprob == nullptr ? 0.0f : ToFloat(dprob[first + c * step]);
    };
    const auto prepared = rule.Prepare(workers, position, p);
    const float dot =
        dprob == nullptr ? 0 : workers.Sum(extent.classes, [&](int64_t c) { return dp(c) * p(c); });
    workers.For(extent.classes, [&](int64_t c) {
      const float from_loss = scale * rule.Slope(prepared, position, c, p(c));
      dx[first + c * step] = FromFloat<T>(from_loss + p(c) * (dp(c) - dot));
    });
  }
};

template <typename T>
static GpuDivisor SoftmaxDivisor(const CudaQueue& queue, const Layer& layer,
                                 const SoftmaxSize& extent, const GpuLabels<T>& labels,
                                 double* parts, float* result) {
  const int64_t all = extent.outer * extent.inner;
  return DivisorOf(
      queue, LossNormalizer(layer), {.outer = extent.outer, .all = all, .counted = all},
      labels.data != nullptr && labels.ignores,
      [=] CREMA_HOST_DEVICE(int64_t i) { return labels(i) >= 0 ? 1.0f : 0.0f; }, parts, result);
}

// Returns labels with null data if input 1 holds a target for each class.
template <typename T, typename Maker>
GpuLabels<T> SoftmaxLabels(const Layer& layer, const SoftmaxSize& extent,
                           std::span<const ConstTensorView> inputs) {
  const bool targets =
      Maker::targets && extent.classes > 1 && inputs[0].shape() == inputs[1].shape();
  return {targets ? nullptr : Elements<T>(inputs[1]), extent.classes,
          IgnoredLabel(layer.param().loss_param())};
}

template <typename Maker>
void SoftmaxLossForward(const Layer& layer, const ForwardArgs& args) {
  const CudaQueue& queue = BoundQueue(args.context);
  const ConstTensorView& x = args.inputs[0];
  const SoftmaxSize extent = Maker::SizesOf(layer, x.shape());
  const int64_t positions = extent.outer * extent.inner;
  ScratchCutter cutter(args.scratch);
  double* parts = cutter.Take<double>(kMostSumParts);
  float* counted = cutter.Take<float>(1);
  float* costs = cutter.Take<float>(positions);
  DispatchCudaFloat(x.dtype(), [&]<typename T>(T) {
    const auto labels = SoftmaxLabels<T, Maker>(layer, extent, args.inputs);
    const auto rule = Maker::template Make<T>(queue, layer, extent, labels, args.inputs, &cutter);
    T* prob = Elements<T>(args.outputs.size() > 1 ? args.outputs[1] : args.saved[0]);
    ForPositions(
        queue, "SoftmaxCosts", extent,
        SoftmaxCosts<T, std::decay_t<decltype(rule)>>{extent, rule, Elements<T>(x), prob, costs});
    const GpuDivisor divisor = SoftmaxDivisor(queue, layer, extent, labels, parts, counted);
    WriteSumOfCosts(queue, positions, costs, divisor, parts, Elements<T>(args.outputs[0]));
  });
}

template <typename Maker>
void SoftmaxLossBackward(const Layer& layer, const BackwardArgs& args) {
  const CudaQueue& queue = BoundQueue(args.context);
  const bool second = args.output_grads.size() > 1;
  const ConstTensorView& prob = second ? args.outputs[1] : args.saved[0];
  const SoftmaxSize extent = Maker::SizesOf(layer, prob.shape());
  ScratchCutter cutter(args.scratch);
  double* parts = cutter.Take<double>(kMostSumParts);
  float* counted = cutter.Take<float>(1);
  DispatchCudaFloat(prob.dtype(), [&]<typename T>(T) {
    const auto labels = SoftmaxLabels<T, Maker>(layer, extent, args.inputs);
    const auto rule = Maker::template Make<T>(queue, layer, extent, labels, args.inputs, &cutter);
    const GpuDivisor divisor = SoftmaxDivisor(queue, layer, extent, labels, parts, counted);
    ForPositions(queue, "SoftmaxSlopes", extent,
                 SoftmaxSlopes<T, std::decay_t<decltype(rule)>>{
                     extent, rule, divisor, Elements<T>(prob), Elements<T>(args.output_grads[0]),
                     second ? Elements<T>(args.output_grads[1]) : nullptr,
                     Elements<T>(args.input_grads[0])});
  });
}

template <typename Maker>
size_t SoftmaxLossScratch(const OpDesc& query) {
  const Shape& scores = query.context.inputs[0].shape;
  const SoftmaxSize extent = Maker::SizesOf(query.layer, scores);
  return LossScratch(query) + ScratchBytes<float>(extent.outer * extent.inner) +
         Maker::Scratch(query.layer, extent);
}

template <typename Maker>
ImplementationPtr MakeSoftmaxLossImplementation(Support (*supports)(const OpDesc&) = nullptr) {
  return MakeCudaImplementation(SoftmaxLossForward<Maker>, SoftmaxLossBackward<Maker>,
                                {.supports = supports,
                                 .forward_scratch = SoftmaxLossScratch<Maker>,
                                 .backward_scratch = SoftmaxLossScratch<Maker>});
}

}  // namespace crema
