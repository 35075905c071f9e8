#include "inference/model_batches.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/error.h"
#include "core/rng.h"
#include "core/strings.h"
#include "inference/region_head.h"

namespace crema {
namespace {

Tensor CopyOf(const ConstTensorView& view) {
  Tensor tensor(view.shape(), view.dtype());
  if (view.count() > 0) std::memcpy(tensor.view().raw(), view.raw(), view.bytes());
  return tensor;
}

// Returns samples [begin, end) of a dense array.
ConstTensorView RangeOf(const ConstTensorView& view, int64_t begin, int64_t end) {
  const size_t row = static_cast<size_t>(view.shape().count(1)) * SizeOf(view.dtype());
  const auto* bytes = static_cast<const char*>(view.raw());
  return {bytes + static_cast<size_t>(begin) * row, view.shape().With(0, end - begin),
          view.dtype()};
}

int64_t SamplesOf(const Model& model, std::span<const NamedTensor> inputs) {
  if (!model.Batches()) {
    Fail(ErrorCode::kInvalidArgument,
         "the samples of this net cannot be taken apart, so there are no batches; do without one");
  }
  int64_t samples = -1;
  for (const NamedTensor& input : inputs) {
    const Shape& shape = input.value.shape();
    const int64_t own = shape.axes() > 0 ? shape[0] : 0;
    if (samples < 0) samples = own;
    if (own == samples) continue;
    Fail(ErrorCode::kInvalidArgument, StrCat("input '", input.name, "' has ", own, " samples, '",
                                             inputs[0].name, "' has ", samples));
  }
  if (samples <= 0) Fail(ErrorCode::kInvalidArgument, "the inputs have no samples");
  return samples;
}

void Append(const ModelRunner& runner, int64_t samples, int64_t begin,
            std::vector<NamedOutput>* outputs) {
  for (NamedOutput& output : *outputs) {
    const ConstTensorView part = runner.Output(output.name);
    if (begin == 0) output.value = Tensor(part.shape().With(0, samples), part.dtype());
    const Shape& whole = output.value.shape();
    CREMA_CHECK(part.shape().With(0, samples) == whole);
    auto* bytes = static_cast<char*>(output.value.view().raw());
    const size_t row = static_cast<size_t>(whole.count(1)) * SizeOf(part.dtype());
    if (part.count() > 0) {
      std::memcpy(bytes + static_cast<size_t>(begin) * row, part.raw(), part.bytes());
    }
  }
}

void Fill(uint64_t seed, NamedOutput* array) {
  const TensorView view = array->value.view();
  const RandomStream random(seed, HashName(array->name));
  const auto fill = [&]<typename T>(T) {
    const std::span<T> values = view.span<T>();
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<T>(random.Uniform(i));
  };
  if (view.dtype() == DType::kF32) fill(float{});
  if (view.dtype() == DType::kF64) fill(double{});
  if (view.dtype() != DType::kU8) return;
  const std::span<uint8_t> bytes = view.span<uint8_t>();
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<uint8_t>(random.Below(i, 256));
}

}  // namespace

std::vector<NamedOutput> RunOnArrays(const Model& model, ModelRunner* runner,
                                     std::span<const NamedTensor> inputs, int64_t batch) {
  std::vector<NamedOutput> outputs;
  for (const BlobInfo& output : model.outputs()) outputs.push_back({output.name, {}});
  if (batch == 0) {
    runner->Run(inputs);
    for (NamedOutput& output : outputs) output.value = CopyOf(runner->Output(output.name));
    return outputs;
  }
  const int64_t samples = SamplesOf(model, inputs);
  for (int64_t begin = 0; begin < samples; begin += batch) {
    const int64_t end = std::min(begin + batch, samples);
    std::vector<NamedTensor> parts;
    for (const NamedTensor& input : inputs) {
      parts.push_back({input.name, RangeOf(input.value, begin, end)});
    }
    runner->Run(parts);
    Append(*runner, samples, begin, &outputs);
  }
  return outputs;
}

std::vector<NamedOutput> RandomInputs(const Model& model, int64_t batch, uint64_t seed) {
  std::vector<NamedOutput> inputs;
  for (const BlobInfo& blob : model.inputs()) {
    std::vector<int64_t> dims = blob.shape;
    for (int64_t& dim : dims) {
      if (dim < 0) dim = batch;
    }
    inputs.push_back({blob.name, Tensor(Shape(dims), blob.dtype)});
    Fill(seed, &inputs.back());
    SetSizesIfThose(model, blob.name, inputs.back().value.view());
  }
  return inputs;
}

std::vector<NamedOutput> AcceptedInputs(const std::shared_ptr<const Model>& model, int64_t batch,
                                        uint64_t seed) {
  std::vector<NamedOutput> inputs = RandomInputs(*model, batch, seed);
  ModelRunner runner(model);
  try {
    runner.Run(ViewsOf(inputs));
  } catch (const Error&) {
    for (NamedOutput& input : inputs) {
      const TensorView view = input.value.view();
      std::memset(view.raw(), 0, view.bytes());
    }
  }
  return inputs;
}

std::vector<NamedTensor> ViewsOf(std::span<const NamedOutput> arrays) {
  std::vector<NamedTensor> views;
  for (const NamedOutput& array : arrays) views.push_back({array.name, array.value.view()});
  return views;
}

}  // namespace crema
