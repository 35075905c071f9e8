// ReLU: y = max(x, 0) + slope * min(x, 0), element by element.
// dx = dy where x > 0, slope * dy elsewhere. If slope >= 0, y determines which: backward then reads
// y, and the layer may run in place.
#include "layers/activation/elementwise.h"
#include "layers/blocked_implementation.h"
#include "layers/int8_ranges.h"

namespace crema {
namespace {

// Implementation "blocked" is for channels that do not fill whole blocks, so that such a blob stays
// blocked up to the layer that fuses its ReLU. The zeros after the last channel stay zeros.
Support SupportsPartBlocks(const OpDesc& query) {
  const BlobSpec& input = query.context.inputs[0];
  if (ChannelBlock() == 0) return Support::No("needs a processor with AVX2 or AVX-512");
  if (input.dtype != DType::kF32) return Support::No("is for f32");
  if (input.shape.axes() != 4) return Support::No("is for N x C x H x W");
  if (input.shape[1] % ChannelBlock() != 0) return {};
  return Support::No("is for channels that do not fill whole blocks");
}

// Returns a view of all channels of the blocks.
template <typename View>
View WholeBlocks(const View& part) {
  if (part.empty()) return part;
  const Shape& s = part.shape();
  const int64_t block = ChannelBlock();
  return {part.raw(), Shape{s[0], (s[1] + block - 1) / block * block, s[2], s[3]}, part.dtype()};
}

void ForwardBlocked(const Layer& layer, const ForwardArgs& args) {
  const ConstTensorView x = WholeBlocks(args.inputs[0]);
  const TensorView y = WholeBlocks(args.outputs[0]);
  ForwardArgs whole = args;
  whole.inputs = {&x, 1};
  whole.outputs = {&y, 1};
  layer.Forward(whole);
}

void BackwardBlocked(const Layer& layer, const BackwardArgs& args) {
  const ConstTensorView x = WholeBlocks(args.inputs[0]);
  const ConstTensorView y = WholeBlocks(args.outputs[0]);
  const ConstTensorView dy = WholeBlocks(args.output_grads[0]);
  const TensorView dx = WholeBlocks(args.input_grads[0]);
  BackwardArgs whole = args;
  whole.inputs = {&x, 1};
  whole.outputs = {&y, 1};
  whole.output_grads = {&dy, 1};
  whole.input_grads = {&dx, 1};
  layer.Backward(whole);
}

}  // namespace

void RegisterReLU(Registry& registry) {
  auto type = ElementwiseType<ReluFormula>("ReLU", "Rectified linear unit, optionally leaky.",
                                           "y = max(x, 0) + negative_slope * min(x, 0)");
  type.differences = {
      "A negative slope below 0 is not computed in place (the sign of x could not be told from "
      "y)."};
  type.param_fields = {"relu_param"};
  type.traits.computes_on_bytes = true;
  const ImplementationPtr blocked = MakeBlockedImplementation(
      {.supports = SupportsPartBlocks, .forward = ForwardBlocked, .backward = BackwardBlocked});
  type.implementations = {Int8ByFloats(), blocked, StoringBFloat16(blocked)};
  const SampleInput input{.shape = {2, 3, 4, 5}, .has_kink = true};
  type.samples = {
      {.name = "plain", .prototxt = "", .inputs = {input}},
      {.name = "leaky", .prototxt = "relu_param { negative_slope: 0.1 }", .inputs = {input}},
      {.name = "negative", .prototxt = "relu_param { negative_slope: -0.5 }", .inputs = {input}},
      {.name = "empty_batch", .prototxt = "", .inputs = {{.shape = {0, 3}}}},
  };
  type.bad_samples = {{"relu_param { negative_slope: nan }",
                       {{2, 3}},
                       "negative_slope is nan, expected a finite number"}};
  registry.Add(std::move(type));
}

}  // namespace crema
