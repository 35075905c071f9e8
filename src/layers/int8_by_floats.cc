#include <cstring>
#include <vector>

#include "crema.pb.h"
#include "layers/int8_ranges.h"
#include "math/scratch.h"

namespace crema {
namespace {

Support Supports(const OpDesc& query) {
  return SupportsInt8Pixels(query, query.context.inputs.size(), query.info.outputs.size());
}

size_t FloatBytes(std::span<const BlobSpec> specs) {
  size_t bytes = 0;
  for (const BlobSpec& spec : specs) bytes += ScratchBytes<float>(spec.shape.count());
  return bytes;
}

size_t Scratch(const OpDesc& query) {
  return kScratchSlack + FloatBytes(query.context.inputs) + FloatBytes(query.info.outputs) +
         query.layer.ForwardScratch(query.context, query.info, query.threads);
}

void Forward(const Layer& layer, const ForwardArgs& args) {
  const int threads = args.context.threads();
  ScratchCutter cutter(args.scratch);
  std::vector<ConstTensorView> inputs;
  for (size_t i = 0; i < args.inputs.size(); ++i) {
    const Shape& x = args.inputs[i].shape();
    auto* floats = cutter.Take<float>(x.count());
    Int8ToPlain(threads, x[0], x[1], x.count(2), args.inputs[i].raw(),
                InputScale(layer, static_cast<int>(i)), floats);
    inputs.emplace_back(floats, x, DType::kF32);
  }
  std::vector<TensorView> outputs;
  for (const TensorView& output : args.outputs) {
    outputs.emplace_back(cutter.Take<float>(output.count()), output.shape(), DType::kF32);
  }
  ForwardArgs plain = args;
  plain.inputs = inputs;
  plain.outputs = outputs;
  plain.scratch = cutter.Rest();
  layer.Forward(plain);
  for (size_t o = 0; o < outputs.size(); ++o) {
    const Shape& y = outputs[o].shape();
    PlainToInt8(threads, y[0], y[1], y.count(2), outputs[o].data<float>(),
                OutputScale(layer, static_cast<int>(o)), args.outputs[o].raw());
  }
}

// Estimates several passes over the floats of all inputs and outputs.
double Seconds(const OpDesc& query) {
  constexpr double kBytesPerSecond = 4e9;  // per thread
  return static_cast<double>(FloatBytes(query.context.inputs) + FloatBytes(query.info.outputs)) /
         (kBytesPerSecond * query.threads);
}

Support SupportsCopy(const OpDesc& query) {
  Support support = SupportsInt8Pixels(query, 1, 1);
  const Int8Ranges& ranges = query.layer.param().int8();
  if (support.yes && !SameRange(ranges.bottom(0), ranges.top(0))) {
    support = Support::No("is for an input and output of one range");
  }
  return support;
}

void Copy(const Layer&, const ForwardArgs& args) {
  if (args.outputs[0].raw() == args.inputs[0].raw()) return;
  std::memcpy(args.outputs[0].raw(), args.inputs[0].raw(), args.inputs[0].bytes());
}

}  // namespace

ImplementationPtr Int8ByFloats() {
  return MakeSimpleImplementation(
      Int8Facts("int8 by floats"),
      {.supports = Supports, .forward = Forward, .forward_scratch = Scratch, .seconds = Seconds});
}

ImplementationPtr Int8Copy() {
  return MakeSimpleImplementation(Int8Facts("int8"), {.supports = SupportsCopy, .forward = Copy});
}

}  // namespace crema
