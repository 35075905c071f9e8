#include "support/layer_case.h"

#include <google/protobuf/text_format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "core/blob_types.h"
#include "core/rng.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "graph/input_types.h"
#include "math/filler.h"
#include "support/guarded_tensor.h"

namespace crema::test {
namespace {

double Rounded(double value) { return static_cast<double>(static_cast<float>(value)); }

// Indices 0..count-1 in random order.
std::vector<size_t> Shuffled(size_t count, const RandomStream& stream) {
  std::vector<size_t> order(count);
  std::iota(order.begin(), order.end(), size_t{0});
  for (size_t i = count; i > 1; --i) {
    std::swap(order[i - 1], order[stream.Below(i, static_cast<uint32_t>(i))]);
  }
  return order;
}

Values DrawInput(const SampleInput& input, size_t count, const RandomStream& stream) {
  Values values(count);
  for (size_t i = 0; i < count; ++i) {
    double& value = values[i];
    value = input.low + (input.high - input.low) * stream.Uniform(i);
    if (input.integer) {
      value = input.low + stream.Below(i, static_cast<uint32_t>(input.high - input.low) + 1);
    }
    const double distance = value - input.kink;
    if (input.has_kink && std::abs(distance) < 0.05) value += distance < 0 ? -0.05 : 0.05;
    value = Rounded(value);
  }
  return values;
}

// Inputs that must differ get their values from one ladder, so that they differ among each other.
void DrawDistinct(const std::vector<SampleInput>& inputs, const RandomStream& stream,
                  std::vector<Values>& values) {
  size_t count = 0;
  for (size_t k = 0; k < inputs.size(); ++k) count += inputs[k].distinct ? values[k].size() : 0;
  const std::vector<size_t> order = Shuffled(count, stream);
  size_t next = 0;
  for (size_t k = 0; k < inputs.size(); ++k) {
    if (!inputs[k].distinct) continue;
    const double range = inputs[k].high - inputs[k].low;
    const double step = std::max(0.06, range / static_cast<double>(std::max<size_t>(1, count)));
    const double middle = (inputs[k].low + inputs[k].high) / 2;
    for (double& value : values[k]) {
      const double rung = static_cast<double>(order[next++]) - static_cast<double>(count) / 2;
      value = Rounded(middle + step * rung);
    }
  }
}

Values DrawUniform(size_t count, const RandomStream& stream) {
  return DrawInput({.shape = {}}, count, stream);
}

}  // namespace

LayerParameter MakeParameter(const LayerType& type, const std::string& prototxt, size_t inputs,
                             int outputs) {
  LayerParameter param;
  if (!google::protobuf::TextFormat::ParseFromString(prototxt, &param)) {
    Fail(ErrorCode::kInvalidArgument, "the text of the sample does not parse: " + prototxt);
  }
  param.set_name("sample");
  param.set_type(type.name);
  for (size_t i = 0; i < inputs; ++i) param.add_bottom(StrCat("in", i));
  for (int i = 0; i < outputs; ++i) param.add_top(StrCat("out", i));
  return param;
}

LayerCase::LayerCase(const LayerType& type, const LayerSample& sample, DType dtype)
    : type_(type), sample_(sample) {
  layer_ = type.make(MakeParameter(type, sample.prototxt, sample.inputs.size(), sample.outputs));
  for (const SampleInput& input : sample.inputs) {
    inputs_.push_back({Shape(std::span<const int64_t>(input.shape)),
                       InputTypeOf(*layer_, inputs_.size(), dtype, dtype)});
  }
  context_ = {.phase = sample.phase,
              .inputs = inputs_,
              .output_count = static_cast<size_t>(sample.outputs),
              .dtype = dtype};
  info_ = layer_->Infer(context_);
}

bool LayerCase::Differentiable(size_t input) const {
  const std::vector<bool>& forbidden = info_.gradient_forbidden;
  return sample_.gradient && !sample_.inputs[input].integer && IsFloatType(inputs_[input].dtype) &&
         !(input < forbidden.size() && forbidden[input]);
}

CaseValues DrawValues(const LayerCase& layer_case) {
  const uint64_t seed =
      MixBits(HashName(layer_case.type().name), HashName(layer_case.sample().name));
  const std::vector<SampleInput>& inputs = layer_case.sample().inputs;
  CaseValues values;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const auto count = static_cast<size_t>(layer_case.infer_context().inputs[i].shape.count());
    values.inputs.push_back(DrawInput(inputs[i], count, RandomStream(seed, i)));
  }
  DrawDistinct(inputs, RandomStream(seed, 1000), values.inputs);
  for (const ParameterInfo& blob : layer_case.info().parameters) {
    FillerParameter filler;
    filler.set_type(blob.statistic ? "uniform" : "gaussian");
    filler.set_std(0.5F);
    filler.set_min(0.5F);  // variances are positive
    filler.set_max(1.5F);
    GuardedTensor tensor(blob.shape, DType::kF32);
    Fill(filler, blob.shape, RandomStream(seed, 2000 + values.parameters.size()), tensor.view());
    values.parameters.push_back(tensor.Values());
  }
  for (const BlobSpec& output : layer_case.info().outputs) {
    values.output_grads.push_back(
        DrawUniform(static_cast<size_t>(output.shape.count()),
                    RandomStream(seed, 3000 + values.output_grads.size())));
  }
  return values;
}

}  // namespace crema::test
