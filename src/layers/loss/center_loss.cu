// CenterLoss on the GPU; see center_loss.cc.
#include "crema.pb.h"
#include "layers/layer_axis.h"
#include "layers/loss/feature_rules.h"
#include "layers/loss/gpu_loss.cuh"
#include "math/softmax.h"

namespace crema {
namespace {

// outer is the number of items, inner the number of values of a feature.
SoftmaxSize SizesOf(const Layer& layer, const Shape& shape) {
  const CenterLossParameter& param = layer.param().center_loss_param();
  const int axis = LayerAxis(layer, shape, param.axis(), "center_loss_param.axis");
  return {shape.count(0, axis), param.num_output(), shape.count(axis)};
}

float Items(const SoftmaxSize& sizes) {
  return static_cast<float>(std::max<int64_t>(1, sizes.outer));
}

template <typename T>
void WriteCosts(const CudaQueue& queue, const SoftmaxSize& sizes, const T* x,
                const GpuLabels<T>& labels, const T* centers, float* costs) {
  ForTeams(queue, "CenterCosts", sizes.outer, [=] CREMA_HOST_DEVICE(const Team& team, int64_t n) {
    const int64_t label = labels(n);
    const T* center = centers + (label < 0 ? 0 : label) * sizes.inner;
    const float square = SquaredDistance<float>(team, x + n * sizes.inner, center, sizes.inner);
    team.For(1, [&](int64_t) { costs[n] = label < 0 ? NotANumber() : square; });
  });
}

template <typename T>
void FeatureGradient(const CudaQueue& queue, const SoftmaxSize& sizes, const T* x,
                     const GpuLabels<T>& labels, const T* centers, const T* dloss, T* dx) {
  const float items = Items(sizes);
  ForElements(queue, "CenterFeatureGradient", sizes.outer * sizes.inner,
              [=] CREMA_HOST_DEVICE(int64_t i) {
                const int64_t label = labels(i / sizes.inner);
                const float scale = ToFloat(dloss[0]) / items;
                const int64_t c = (label < 0 ? 0 : label) * sizes.inner + i % sizes.inner;
                const float slope = scale * (ToFloat(x[i]) - ToFloat(centers[c]));
                dx[i] = FromFloat<T>(label < 0 ? 0 : slope);
              });
}

// One team per class. Most classes have no items in a batch.
template <typename T>
void AddCenterUpdate(const CudaQueue& queue, const SoftmaxSize& sizes, const T* x,
                     const GpuLabels<T>& labels, const T* centers, T* update) {
  ForTeams(
      queue, "CenterUpdate", sizes.classes, [=] CREMA_HOST_DEVICE(const Team& team, int64_t c) {
        const int64_t items =
            team.Sum(sizes.outer, [&](int64_t n) { return static_cast<int64_t>(labels(n) == c); });
        if (items == 0) return;
        const float share = 1 / static_cast<float>(1 + items);
        team.For(sizes.inner, [&](int64_t i) {
          const int64_t at = c * sizes.inner + i;
          float sum = 0;
          for (int64_t n = 0; n < sizes.outer; ++n) {
            if (labels(n) == c) sum += ToFloat(centers[at]) - ToFloat(x[n * sizes.inner + i]);
          }
          update[at] = FromFloat<T>(ToFloat(update[at]) + share * sum);
        });
      });
}

void ForwardOnGpu(const Layer& layer, const ForwardArgs& args) {
  const CudaQueue& queue = BoundQueue(args.context);
  const SoftmaxSize sizes = SizesOf(layer, args.inputs[0].shape());
  ScratchCutter cutter(args.scratch);
  float* costs = cutter.Take<float>(sizes.outer);
  double* parts = cutter.Take<double>(kMostSumParts);
  DispatchCudaFloat(args.inputs[0].dtype(), [&]<typename T>(T) {
    const GpuLabels<T> labels(Elements<T>(args.inputs[1]), sizes.classes);
    WriteCosts(queue, sizes, Elements<T>(args.inputs[0]), labels, Elements<T>(args.parameters[0]),
               costs);
    WriteSumOfCosts(queue, sizes.outer, costs, {.fixed = 2 * Items(sizes)}, parts,
                    Elements<T>(args.outputs[0]));
  });
}

void BackwardOnGpu(const Layer& layer, const BackwardArgs& args) {
  const CudaQueue& queue = BoundQueue(args.context);
  const SoftmaxSize sizes = SizesOf(layer, args.inputs[0].shape());
  DispatchCudaFloat(args.inputs[0].dtype(), [&]<typename T>(T) {
    const T* x = Elements<T>(args.inputs[0]);
    const T* centers = Elements<T>(args.parameters[0]);
    const GpuLabels<T> labels(Elements<T>(args.inputs[1]), sizes.classes);
    if (!args.input_grads[0].empty()) {
      FeatureGradient(queue, sizes, x, labels, centers, Elements<T>(args.output_grads[0]),
                      Elements<T>(args.input_grads[0]));
    }
    if (!args.parameter_grads[0].empty()) {
      AddCenterUpdate(queue, sizes, x, labels, centers, Elements<T>(args.parameter_grads[0]));
    }
  });
}

size_t ForwardScratch(const OpDesc& query) {
  return LossScratch(query) +
         ScratchBytes<float>(SizesOf(query.layer, query.context.inputs[0].shape).outer);
}

}  // namespace

void RegisterCenterLossCuda(Registry& registry) {
  registry.AddImplementation(
      "CenterLoss",
      MakeCudaImplementation(ForwardOnGpu, BackwardOnGpu, {.forward_scratch = ForwardScratch}));
}

}  // namespace crema
