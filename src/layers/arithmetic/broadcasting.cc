#include "layers/arithmetic/broadcasting.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "core/strings.h"

namespace crema {
namespace {

// Returns the size of an axis of `shape` if it had `axes` axes.
int64_t SizeAt(const Shape& shape, int axes, int axis) {
  const int own = axis - axes + shape.axes();
  return own < 0 ? 1 : shape[own];
}

// Returns true if the shape has elements on axis 1 of `result` only, or a single one.
bool IsPerChannel(const Shape& shape, const Shape& result) {
  for (int a = 0; a < result.axes(); ++a) {
    if (a != 1 && SizeAt(shape, result.axes(), a) != 1) return false;
  }
  return true;
}

// Returns the reach of inputs of which input 0 is not shared.
Reach ReachOf(std::span<const BlobSpec> inputs, const Shape& result,
              const std::vector<bool>& shared) {
  if (inputs[0].shape != result) return Reach::kSample;
  Reach reach = Reach::kElement;
  for (size_t i = 1; i < inputs.size(); ++i) {
    const Shape& shape = inputs[i].shape;
    if (shape == result || (shared[i] && shape.count() == 1)) continue;
    if (!shared[i] || !IsPerChannel(shape, result)) return Reach::kSample;
    reach = Reach::kPlace;
  }
  return reach;
}

}  // namespace

Shape BroadcastShapeOf(const Layer& layer, std::span<const BlobSpec> inputs) {
  std::array<int64_t, Shape::kMaxAxes> sizes{};
  int axes = 0;
  for (const BlobSpec& input : inputs) axes = std::max(axes, input.shape.axes());
  for (int a = 0; a < axes; ++a) {
    int64_t& size = sizes[static_cast<size_t>(a)];
    const BlobSpec* from = nullptr;  // the input with this size
    size = 1;
    for (const BlobSpec& input : inputs) {
      const int64_t own = SizeAt(input.shape, axes, a);
      if (own == 1 || (from != nullptr && own == size)) continue;
      if (from != nullptr) {
        FailInputs(layer, StrCat("cannot broadcast ", ToString(from->shape), " and ",
                                 ToString(input.shape), " to one shape: aligned at the end, axes ",
                                 "must be equal or 1, but there are ", size, " and ", own));
      }
      size = own;
      from = &input;
    }
  }
  return Shape(std::span<const int64_t>(sizes.data(), static_cast<size_t>(axes)));
}

size_t GradientSumScratch(const Shape& result, std::span<const BlobSpec> inputs) {
  const BroadcastMap map = MapOfInputs(result, inputs);
  size_t bytes = 0;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (IsWhole(inputs[i], result)) continue;
    bytes = std::max(bytes, FoldScratch<double>(map, static_cast<int>(i), inputs[i].shape.count()));
  }
  return bytes;
}

void SetBroadcastFacts(const Layer& layer, std::span<const BlobSpec> inputs, LayerInfo* info) {
  const Shape result = BroadcastShapeOf(layer, inputs);
  info->outputs = {{result, inputs[0].dtype}};
  const auto is_whole = [&](const BlobSpec& input) { return IsWhole(input, result); };
  if (std::ranges::all_of(inputs, is_whole)) {
    info->reach = Reach::kElement;
    info->any_format = true;
    return;
  }
  for (const BlobSpec& input : inputs) {
    const bool shares = input.shape.axes() < result.axes() || input.shape[0] != result[0];
    info->shared_inputs.push_back(shares);
  }
  info->reach =
      info->shared_inputs[0] ? Reach::kSample : ReachOf(inputs, result, info->shared_inputs);
}

}  // namespace crema
