// Runs layers of plugins on a GPU.
#include "graph/plugin_layer.h"
#include "math/cuda/cuda_queue.h"

namespace crema {
namespace {

void* StreamOf([[maybe_unused]] const CudaQueue& queue) {
#ifdef __CUDACC__
  return queue.stream();
#else
  return nullptr;
#endif
}

void Forward(const Layer& layer, const ForwardArgs& args) {
  const CudaQueue& queue = BoundQueue(args.context);
  queue.Call("plugin forward", PluginGpuPass(layer, args, StreamOf(queue)));
}

void Backward(const Layer& layer, const BackwardArgs& args) {
  const CudaQueue& queue = BoundQueue(args.context);
  queue.Call("plugin backward", PluginGpuPass(layer, args, StreamOf(queue)));
}

}  // namespace

ImplementationPtr PluginGpuImplementation() {
  return MakeSimpleImplementation({.name = "cuda", .device = DeviceType::kCuda},
                                  {.supports = SupportsPluginOnGpu,
                                   .forward = Forward,
                                   .backward = Backward,
                                   .forward_scratch = PluginScratch,
                                   .backward_scratch = PluginScratch});
}

}  // namespace crema
