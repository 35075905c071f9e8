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

float Items(const SoftmaxSize& extent) {
  return static_cast<float>(std::max<int64_t>(1, extent.outer));
}

template <typename T>
void WriteCosts(const CudaQueue& queue, const SoftmaxSize& extent, const T* x,
                const GpuLabels<T>& labels, const T* centers, float* costs) {
  ForTeams(queue, "CenterCosts", extent.outer, [=] CREMA_HOST_DEVICE(const Team& team, int64_t n) {
    const int64_t label = labels(n);
    const T* center = centers + (label < 0 ? 0 : label) * extent.inner;
    const float square = SquaredDistance<float>(team, x + n * extent.inner, center, extent.inner);
    team.For(1, [&](int64_t) { costs[n] = label < 0 ? NotANumber() : square; });
  });
}

template <typename T>
void FeatureGradient(const CudaQueue& queue, const SoftmaxSize& extent, const T* x,
                     const GpuLabels<T>& labels, const T* centers, const T* dloss, T* dx) {
  const float items = Items(extent);
  ForElements(queue, "CenterFeatureGradient", extent.outer * extent.inner,
              [=] CREMA_HOST_DEVICE(int64_t i) {
                const int64_t label = labels(i / extent.inner);
                const float scale = ToFloat(dloss[0]) / items;
                const int64_t c = (label < 0 ? 0 : label) * extent.inner + i % extent.inner;
                const float slope = scale * (ToFloat(x[i]) - ToFloat(centers[c]));
                dx[i] = FromFloat<T>(label < 0 ? 0 : slope);
              });
}

// One team per class. Most classes have no items in a batch.
template <typename T>
void AddCenterUpdate(const CudaQueue& queue, const SoftmaxSize& extent, const T* x,
                     const GpuLabels<T>& labels, const T* centers, T* update) {
  ForTeams(
      queue, "CenterUpdate", extent.classes, [=] CREMA_HOST_DEVICE(const Team& team, int64_t c) {
        const int64_t items =
            team.Sum(extent.outer, [&](int64_t n) { return static_cast<int64_t>(labels(n) == c); });
        if (items == 0) return;
        const float share = 1 / static_cast<float>(1 + items);
        team.For(extent.inner, [&](int64_t i) {
          const int64_t at = c * extent.inner + i;
          float sum = 0;
          for (int64_t n = 0; n < extent.outer; ++n) {
            if (labels(n) == c) sum += ToFloat(centers[at]) - ToFloat(x[n * extent.inner + i]);
          }
          update[at] = FromFloat<T>(ToFloat(update[at]) + share * sum);
        });
      });
}

void ForwardOnGpu(const Layer& layer, const ForwardArgs& args) {
  const CudaQueue& queue = BoundQueue(args.context);
  const SoftmaxSize extent = SizesOf(layer, args.inputs[0].shape());
  ScratchCutter cutter(args.scratch);
  float* costs = cutter.Take<float>(extent.outer);
  double* parts = cutter.Take<double>(kMostSumParts);
  DispatchCudaFloat(args.inputs[0].dtype(), [&]<typename T>(T) {
    const GpuLabels<T> labels(Elements<T>(args.inputs[1]), extent.classes);
    WriteCosts(queue, extent, Elements<T>(args.inputs[0]), labels, Elements<T>(args.parameters[0]),
               costs);
    WriteSumOfCosts(queue, extent.outer, costs, {.fixed = 2 * Items(extent)}, parts,
                    Elements<T>(args.outputs[0]));
  });
}

void BackwardOnGpu(const Layer& layer, const BackwardArgs& args) {
  const CudaQueue& queue = BoundQueue(args.context);
  const SoftmaxSize extent = SizesOf(layer, args.inputs[0].shape());
  DispatchCudaFloat(args.inputs[0].dtype(), [&]<typename T>(T) {
    const T* x = Elements<T>(args.inputs[0]);
    const T* centers = Elements<T>(args.parameters[0]);
    const GpuLabels<T> labels(Elements<T>(args.inputs[1]), extent.classes);
    if (!args.input_grads[0].empty()) {
      FeatureGradient(queue, extent, x, labels, centers, Elements<T>(args.output_grads[0]),
                      Elements<T>(args.input_grads[0]));
    }
    if (!args.parameter_grads[0].empty()) {
      AddCenterUpdate(queue, extent, x, labels, centers, Elements<T>(args.parameter_grads[0]));
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
