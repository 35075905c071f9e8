// Im2col on the GPU; see im2col.cc.
#include "crema.pb.h"
#include "layers/convolution/conv_geometry.h"
#include "layers/gpu_implementation.h"
#include "math/cuda/im2col.h"

namespace crema {
namespace {

int ChannelAxis(const Layer& layer, const Shape& input) {
  return input.CanonicalAxis(layer.param().convolution_param().axis());
}

void Forward(const Layer& layer, const ForwardArgs& args) {
  const Shape& input = args.inputs[0].shape();
  const int axis = ChannelAxis(layer, input);
  CudaIm2col(BoundQueue(args.context), args.inputs[0].dtype(), MakeConvWindow(layer, input, axis),
             input.count(0, axis + 1), args.inputs[0].raw(), args.outputs[0].raw());
}

void Backward(const Layer& layer, const BackwardArgs& args) {
  if (args.input_grads[0].empty()) return;
  const Shape& input = args.input_grads[0].shape();
  const int axis = ChannelAxis(layer, input);
  CudaCol2im(BoundQueue(args.context), args.input_grads[0].dtype(),
             MakeConvWindow(layer, input, axis), input.count(0, axis + 1),
             args.output_grads[0].raw(), args.input_grads[0].raw());
}

}  // namespace

void RegisterIm2colCuda(Registry& registry) {
  registry.AddImplementation("Im2col", MakeCudaImplementation(Forward, Backward));
}

}  // namespace crema
