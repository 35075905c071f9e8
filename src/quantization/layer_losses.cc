#include "quantization/layer_losses.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "crema.pb.h"
#include "graph/int8_scale.h"
#include "math/int8_copy.h"
#include "math/int8_weights.h"
#include "math/stored_to_plain.h"
#include "quantization/byte_weights.h"

namespace crema {
namespace {

size_t Index(int i) { return static_cast<size_t>(i); }

std::vector<float> AsBytes(std::span<const float> x, Int8Scale scale) {
  std::vector<float> rounded(x.size());
  DispatchInt8(scale.is_signed, [&]<typename T>(T) {
    std::ranges::transform(x, rounded.begin(), [&](float v) {
      return static_cast<float>(NearestByte<T>(v, 1 / scale.step)) * scale.step;
    });
  });
  return rounded;
}

// The weights of a layer, rounded as its implementation rounds them.
std::vector<float> WeightsAsBytes(const PlannedLayer& layer, const ConstTensorView& weight) {
  const ByteWeights bytes = RoundWeights(layer, weight, LargestInt8Weight());
  std::vector<float> rounded(bytes.bytes.size());
  WeightsFromBytes(weight.shape(), bytes.axis, bytes.bytes.data(), bytes.steps, rounded.data());
  return rounded;
}

// Converts a blob of any format to plain floats.
std::vector<float> PlainFloats(const TensorView& view, MemoryFormat format,
                               const Int8Range& range) {
  std::vector<float> plain(static_cast<size_t>(view.count()));
  const Int8Scale scale = format.type == DType::kU8 ? ScaleOf(range) : Int8Scale{};
  StoredToPlain(1, view.shape(), format, view.raw(), scale, plain.data());
  return plain;
}

}  // namespace

void Loss::Add(std::span<const float> right, std::span<const float> other) {
  for (size_t i = 0; i < right.size(); ++i) {
    const double r = right[i], d = r - double{other[i]};
    signal += r * r;
    noise += d * d;
  }
}

double Loss::SnrDb() const {
  if (signal == 0) return std::numeric_limits<double>::quiet_NaN();
  return noise == 0 ? std::numeric_limits<double>::infinity() : 10 * std::log10(signal / noise);
}

double Loss::RelativeError() const {
  return signal == 0 ? std::numeric_limits<double>::quiet_NaN() : std::sqrt(noise / signal);
}

bool HasProducts(const LayerType& type) {
  return type.traits.multiplies_matrices && type.traits.computes_on_bytes;
}

void OwnLosses::AfterForward(size_t n, const ForwardArgs& args) {
  const PlannedLayer& layer = plan_.layers[n];
  if (!HasProducts(*layer.type) || args.inputs.size() != 1) return;
  const Int8Range& range = ranges_[Index(layer.inputs[0])];
  if (!range.has_max()) return;
  const std::vector<float> x = AsBytes(args.inputs[0].span<float>(), ScaleOf(range));
  const std::vector<float> weight = WeightsAsBytes(layer, args.parameters[0]);
  std::vector<float> y(static_cast<size_t>(args.outputs[0].count()));
  const ConstTensorView input(x.data(), args.inputs[0].shape(), DType::kF32);
  const TensorView output(y.data(), args.outputs[0].shape(), DType::kF32);
  std::vector<ConstTensorView> parameters(args.parameters.begin(), args.parameters.end());
  parameters[0] = {weight.data(), parameters[0].shape(), DType::kF32};
  const BlobSpec spec{args.inputs[0].shape(), DType::kF32};
  const InferContext context{
      .phase = args.phase, .inputs = {&spec, 1}, .output_count = 1, .dtype = DType::kF32};
  const size_t bytes = layer.layer->ForwardScratch(context, layer.info, args.context.threads());
  Tensor scratch(Shape{static_cast<int64_t>(bytes / 1024) + 1, 256}, DType::kF32);
  ForwardArgs rounded = args;
  rounded.inputs = {&input, 1};
  rounded.outputs = {&output, 1};
  rounded.parameters = parameters;
  rounded.scratch = {static_cast<std::byte*>(scratch.view().raw()), scratch.view().bytes()};
  rounded.implementation_state = nullptr;
  layer.layer->Forward(rounded);
  losses_[n].Add(args.outputs[0].span<float>(), y);
}

AccumulatedLosses::AccumulatedLosses(const Plan& plan, const Session& right)
    : plan_(plan), right_(right) {}

void AccumulatedLosses::AfterForward(size_t n, const ForwardArgs& args) {
  const PlannedLayer& layer = plan_.layers[n];
  if (args.outputs.empty() || layer.type->name == "Reorder") return;
  const PlannedLayer& last =
      layer.fusion.followers.empty() ? layer : plan_.layers[Index(layer.fusion.followers.back())];
  const PlannedValue& value = plan_.values[Index(last.outputs[0])];
  // If a name stands for several values (in place), the last one is kept.
  const int wanted = right_.plan().FindValue(value.name);
  if (wanted < 0 || value.spec.dtype != DType::kF32) return;
  const PlannedLayer& maker =
      right_.plan().layers[Index(right_.plan().values[Index(wanted)].producer)];
  if (maker.name() != last.name()) return;
  const ConstTensorView right = right_.Data(value.name);
  if (right.empty() || right.dtype() != DType::kF32 || right.count() != args.outputs[0].count()) {
    return;
  }
  const Int8Ranges& ranges = last.layer->param().int8();
  if (value.spec.format.type == DType::kU8 && ranges.top_size() == 0) return;
  const std::vector<float> made = PlainFloats(args.outputs[0], value.spec.format,
                                              ranges.top_size() > 0 ? ranges.top(0) : Int8Range());
  by_layer_[layer.name()].Add(right.span<float>(), made);
}

}  // namespace crema
