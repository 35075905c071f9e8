// Gain with channels divided over threads. The native code adds the gradient of the factors on one.
#include "core/parallel_for.h"
#include "crema.pb.h"
#include "examples/gain.h"
#include "graph/implementation.h"
#include "layers/layer_axis.h"

namespace crema {
namespace {

int AxisOf(const Layer& layer, const Shape& shape) {
  return LayerAxis(layer, shape, layer.param().scale_param().axis(), "scale_param.axis");
}

Support Supports(const OpDesc& query) {
  if (query.context.dtype != DType::kF32) return Support::No("is for f32");
  if (!query.backward) return Support::No("computes a forward pass as the native code does");
  const Shape& shape = query.context.inputs[0].shape;
  if (shape[AxisOf(query.layer, shape)] < query.threads) return Support::No("has too few channels");
  return {};
}

// Adds in the order of the samples, so that the bits do not depend on the number of threads.
void Backward(const Layer& layer, const BackwardArgs& args) {
  const Shape& shape = args.output_grads[0].shape();
  const int axis = AxisOf(layer, shape);
  const int64_t inner = shape.count(axis + 1);
  const auto* x = args.inputs[0].data<float>();
  const auto* dy = args.output_grads[0].data<float>();
  const auto* gain = args.parameters[0].data<float>();
  auto* dx = args.input_grads[0].empty() ? nullptr : args.input_grads[0].data<float>();
  auto* dg = args.parameter_grads[0].empty() ? nullptr : args.parameter_grads[0].data<float>();
  ParallelFor(args.context.threads(), shape[axis], 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t c = begin; c < end; ++c) {
      double dot = 0;
      for (int64_t n = c; n < shape.count(0, axis + 1); n += shape[axis]) {
        for (int64_t i = n * inner; i < (n + 1) * inner; ++i) {
          dot += double(dy[i]) * double(x[i]);
          if (dx != nullptr) dx[i] = gain[c] * dy[i];
        }
      }
      if (dg != nullptr) dg[c] += static_cast<float>(dot);
    }
  });
}

}  // namespace

ImplementationPtr GainByChannel() {
  return MakeSimpleImplementation({.name = "by_channel"},
                                  {.supports = Supports, .backward = Backward});
}

}  // namespace crema
