// GPU version of SoftmaxLoss (softmax_loss.h), shared by SoftmaxWithLoss, InfogainLoss and
// FocalLoss.
//
// A `Rule<T>` computes the cost of a position. It is made from SoftmaxInputs<T> and copied to the
// device. W is the set of threads of a position:
//   float Cost(const W&, int64_t position, log_p), log_p(c) being the logarithm of p;
//   auto Prepare(const W&, int64_t position, p), p(c) being p; the result is passed to Slope;
//   float Slope(prepared, int64_t position, int64_t c, float p): d cost / d score c.
// Logarithms are computed from the scores, because the stored p may be a half.
#pragma once

#include "crema.pb.h"
#include "layers/loss/gpu_loss.cuh"
#include "layers/loss/positions.cuh"
#include "layers/loss/softmax_loss.h"

namespace crema {

template <typename T>
struct SoftmaxInputs {
  SoftmaxInputs(const CudaQueue& on, const SoftmaxLoss& of, const Shape& scores,
                std::span<const ConstTensorView> views)
      : queue(on),
        layer(of),
        sizes(of.SizesOf(scores)),
        inputs(views),
        labels(of.AreTargets(scores, views[1].shape()) ? nullptr : Elements<T>(views[1]),
               sizes.classes, of.ignored()) {}

  int64_t positions() const { return sizes.outer * sizes.inner; }

  const CudaQueue& queue;
  const SoftmaxLoss& layer;
  const SoftmaxSize sizes;
  const std::span<const ConstTensorView> inputs;
  const GpuLabels<T> labels;  // null data with a target for each class
  ScratchCutter* cutter = nullptr;
};

template <typename T, typename Rule>
struct SoftmaxCosts {
  SoftmaxSize sizes;
  Rule rule;
  const T* scores;
  T* prob;       // null if not needed
  float* costs;  // one per position

  template <typename Workers>
  CREMA_HOST_DEVICE void operator()(const Workers& workers, int64_t position) const {
    const T* x = scores + FirstClass(sizes, position);
    const int64_t step = sizes.inner;
    const float most = workers.Max(sizes.classes, -std::numeric_limits<float>::infinity(),
                                   [&](int64_t c) { return ToFloat(x[c * step]); });
    const float sum = workers.Sum(sizes.classes,
                                  [&](int64_t c) { return std::exp(ToFloat(x[c * step]) - most); });
    if (prob != nullptr) {
      T* p = prob + FirstClass(sizes, position);
      workers.For(sizes.classes, [&](int64_t c) {
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
  SoftmaxSize sizes;
  Rule rule;
  GpuDivisor divisor;
  const T* prob;
  const T* dloss;
  const T* dprob;  // gradient of the probabilities; null means none
  T* dx;

  template <typename Workers>
  CREMA_HOST_DEVICE void operator()(const Workers& workers, int64_t position) const {
    const int64_t first = FirstClass(sizes, position), step = sizes.inner;
    const float scale = ToFloat(dloss[0]) / divisor.Value();
    const auto p = [&](int64_t c) { return ToFloat(prob[first + c * step]); };
    const auto dp = [&](int64_t c) {
      return dprob == nullptr ? 0.0f : ToFloat(dprob[first + c * step]);
    };
    const auto prepared = rule.Prepare(workers, position, p);
    const float dot =
        dprob == nullptr ? 0 : workers.Sum(sizes.classes, [&](int64_t c) { return dp(c) * p(c); });
    workers.For(sizes.classes, [&](int64_t c) {
      const float from_loss = scale * rule.Slope(prepared, position, c, p(c));
      dx[first + c * step] = FromFloat<T>(from_loss + p(c) * (dp(c) - dot));
    });
  }
};

template <typename T>
static GpuDivisor SoftmaxDivisor(const SoftmaxInputs<T>& given, double* parts, float* result) {
  const int64_t all = given.positions();
  const GpuLabels<T> labels = given.labels;
  return DivisorOf(
      given.queue, given.layer.normalizer(),
      {.outer = given.sizes.outer, .all = all, .counted = all},
      labels.data != nullptr && labels.ignores,
      [=] CREMA_HOST_DEVICE(int64_t i) { return labels(i) >= 0 ? 1.0f : 0.0f; }, parts, result);
}

template <template <typename> typename Rule>
void SoftmaxLossForward(const Layer& layer, const ForwardArgs& args) {
  const auto& loss = static_cast<const SoftmaxLoss&>(layer);
  const ConstTensorView& x = args.inputs[0];
  const CudaQueue& queue = BoundQueue(args.context);
  ScratchCutter cutter(args.scratch);
  double* parts = cutter.Take<double>(kMostSumParts);
  float* counted = cutter.Take<float>(1);
  DispatchCudaFloat(x.dtype(), [&]<typename T>(T) {
    SoftmaxInputs<T> given(queue, loss, x.shape(), args.inputs);
    float* costs = cutter.Take<float>(given.positions());
    given.cutter = &cutter;
    T* prob = Elements<T>(args.outputs.size() > 1 ? args.outputs[1] : args.saved[0]);
    ForPositions(
        queue, "SoftmaxCosts", given.sizes,
        SoftmaxCosts<T, Rule<T>>{given.sizes, Rule<T>(given), Elements<T>(x), prob, costs});
    const GpuDivisor divisor = SoftmaxDivisor(given, parts, counted);
    WriteSumOfCosts(queue, given.positions(), costs, divisor, parts, Elements<T>(args.outputs[0]));
  });
}

template <template <typename> typename Rule>
void SoftmaxLossBackward(const Layer& layer, const BackwardArgs& args) {
  const auto& loss = static_cast<const SoftmaxLoss&>(layer);
  const bool second = args.output_grads.size() > 1;
  const ConstTensorView& prob = second ? args.outputs[1] : args.saved[0];
  const CudaQueue& queue = BoundQueue(args.context);
  ScratchCutter cutter(args.scratch);
  double* parts = cutter.Take<double>(kMostSumParts);
  float* counted = cutter.Take<float>(1);
  DispatchCudaFloat(prob.dtype(), [&]<typename T>(T) {
    SoftmaxInputs<T> given(queue, loss, prob.shape(), args.inputs);
    given.cutter = &cutter;
    const Rule<T> rule(given);
    const GpuDivisor divisor = SoftmaxDivisor(given, parts, counted);
    ForPositions(queue, "SoftmaxSlopes", given.sizes,
                 SoftmaxSlopes<T, Rule<T>>{given.sizes, rule, divisor, Elements<T>(prob),
                                           Elements<T>(args.output_grads[0]),
                                           second ? Elements<T>(args.output_grads[1]) : nullptr,
                                           Elements<T>(args.input_grads[0])});
  });
}

template <int64_t kClassScratch>
size_t SoftmaxLossScratch(const OpDesc& query) {
  const auto& loss = static_cast<const SoftmaxLoss&>(query.layer);
  const SoftmaxSize sizes = loss.SizesOf(query.context.inputs[0].shape);
  return LossScratch(query) + ScratchBytes<float>(sizes.outer * sizes.inner) +
         ScratchBytes<float>(kClassScratch * sizes.classes);
}

// Rules take `kClassScratch` floats of scratch for each class.
template <template <typename> typename Rule, int64_t kClassScratch = 0>
ImplementationPtr MakeSoftmaxLossImplementation(Support (*supports)(const OpDesc&) = nullptr) {
  return MakeCudaImplementation(SoftmaxLossForward<Rule>, SoftmaxLossBackward<Rule>,
                                {.supports = supports,
                                 .forward_scratch = SoftmaxLossScratch<kClassScratch>,
                                 .backward_scratch = SoftmaxLossScratch<kClassScratch>});
}

}  // namespace crema
