// LabelSpecificAdd on the GPU; see label_specific_add.cc.
#include "layers/gpu_implementation.h"
#include "layers/loss/gpu_loss.cuh"
#include "layers/loss/label_specific_add.h"
#include "math/cuda/copy.cuh"

namespace crema {
namespace {

template <typename T>
void Add(const CudaQueue& queue, int64_t items, const GpuLabels<T>& of, float bias, T* y) {
  const GpuLabels<T> labels = of;
  ForElements(queue, "LabelSpecificAdd", items, [=] CREMA_HOST_DEVICE(int64_t n) {
    const int64_t label = labels(n);
    T& score = y[n * labels.classes + std::max<int64_t>(label, 0)];
    const float value = ToFloat(score);
    if (label < 0) {
      score = FromFloat<T>(NotANumber());
    } else if (value > -bias) {
      score = FromFloat<T>(value + bias);
    }
  });
}

struct GpuLabelSpecificAdd {
  template <typename T>
  static void Forward(const Layer& layer, const GpuForward<T>& args) {
    const Shape& shape = args.inputs[0].shape();
    if (args.x() != args.y()) CopyElements(args.queue, shape.count(), args.x(), args.y());
    if (!AddsToLabel(layer.param(), args.phase)) return;
    Add(args.queue, shape[0], GpuLabels<T>(args.x(1), shape.count(1)),
        layer.param().label_specific_add_param().bias(), args.y());
  }

  template <typename T>
  static void Backward(const Layer&, const GpuBackward<T>& args) {
    if (args.dx() == nullptr || args.dx() == args.dy()) return;
    CopyElements(args.queue, args.output_grads[0].count(), args.dy(), args.dx());
  }
};

}  // namespace

void RegisterLabelSpecificAddCuda(Registry& registry) {
  registry.AddImplementation("LabelSpecificAdd", CudaImplementation<GpuLabelSpecificAdd>());
}

}  // namespace crema
