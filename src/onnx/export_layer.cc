#include "onnx/export_layer.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "core/error.h"
#include "core/strings.h"
#include "crema.pb.h"

namespace crema {

bool LayerExport::is_open() const {
  return std::ranges::any_of(open, [](bool value) { return value; });
}

void LayerExport::Refuse(const std::string& why) const {
  Fail(ErrorCode::kUnsupported, StrCat(param.type(), " cannot be written as ONNX: ", why),
       {.layer = param.name()});
}

std::string LayerExport::Affine(const std::string& x, double factor, double shift) {
  std::string y = x;
  if (static_cast<float>(factor) != 1) y = Add("Mul", {y, graph.Scalar(factor)});
  if (static_cast<float>(shift) != 0) y = Add("Add", {y, graph.Scalar(shift)});
  return y;
}

std::string LayerExport::Activate(const std::string& x, bool on, double negative_slope) {
  if (!on) return x;
  if (negative_slope == 0) return Add("Relu", {x});
  return Add("LeakyRelu", {x}, {{"alpha", negative_slope}});
}

std::string LayerExport::Reshape(const std::string& x, const Shape& from, const Shape& to,
                                 bool open_axis) {
  if (from == to) return x;
  std::vector<int64_t> dims = DimsOf(to);
  OnnxAttributes attributes;
  if (open_axis && !dims.empty() && from.axes() > 0 && from[0] == to[0]) {
    dims[0] = 0;  // copies that of x
  } else if (open_axis && !dims.empty()) {
    dims[0] = -1;
  } else if (to.count() == 0 && graph.opset() >= 14) {
    attributes.emplace_back("allowzero", 1);
  }
  return Add("Reshape", {x, graph.Ints(dims)}, attributes);
}

std::string LayerExport::Unsqueeze(const std::string& x, const std::vector<int64_t>& axes) {
  return axes.empty() ? x : Add("Unsqueeze", {x, graph.Ints(axes)});
}

std::string LayerExport::Squeeze(const std::string& x, const std::vector<int64_t>& axes) {
  return axes.empty() ? x : Add("Squeeze", {x, graph.Ints(axes)});
}

std::string LayerExport::Transpose(const std::string& x, const std::vector<int64_t>& order) {
  if (std::ranges::is_sorted(order)) return x;
  return Add("Transpose", {x}, {{"perm", order}});
}

std::string LayerExport::Slice(const std::string& x, int axis, int64_t begin, int64_t end) {
  return Add("Slice", {x, graph.Ints({begin}), graph.Ints({end}), graph.Ints({axis})});
}

std::string LayerExport::ToFloat(const std::string& x) {
  return Add("Cast", {x}, {{"to", int64_t{onnx::TensorProto::FLOAT}}});
}

std::string LayerExport::ToInt(const std::string& x) {
  return Add("Cast", {x}, {{"to", int64_t{onnx::TensorProto::INT64}}});
}

std::string LayerExport::Parameter(size_t index) const {
  return Parameter(index, DimsOf(parameters[index].shape()));
}

std::string LayerExport::Parameter(size_t index, const std::vector<int64_t>& dims) const {
  if (index == 0 && !rounded_weight.empty()) return rounded_weight;
  return graph.Weight(parameter_keys[index], dims, parameters[index]);
}

std::vector<float> LayerExport::Values(size_t index) const {
  const std::span<const float> values = parameters[index].span<float>();
  return {values.begin(), values.end()};
}

std::vector<float> LayerExport::RunNative(const std::vector<Shape>& inputs) const {
  std::vector<BlobSpec> blobs;
  std::vector<Tensor> tensors;
  std::vector<ConstTensorView> views;
  for (const Shape& input : inputs) {
    blobs.push_back({input});
    tensors.emplace_back(input, DType::kF32);
  }
  for (const Tensor& tensor : tensors) views.push_back(tensor.view());
  const InferContext context{.phase = TEST, .inputs = blobs, .output_count = 1};
  const LayerInfo native = layer.Infer(context);
  Tensor output(native.outputs[0].shape, DType::kF32);
  const std::vector<TensorView> outputs = {output.view()};
  const std::vector<TensorView> saved(native.saved.size());
  std::vector<std::byte> scratch(layer.ForwardScratch(context, native, 1));
  ExecContext execution;
  std::vector<Shape> shapes = {output.shape()};
  layer.Forward({.context = execution,
                 .phase = TEST,
                 .layer_id = 0,
                 .inputs = views,
                 .outputs = outputs,
                 .parameters = parameters,
                 .saved = saved,
                 .scratch = scratch,
                 .state = nullptr,
                 .output_shapes = shapes});
  const std::span<const float> values = std::as_const(output).view().span<float>();
  return {values.begin(), values.end()};
}

std::vector<int64_t> DimsOf(const Shape& shape) {
  return {shape.dims().begin(), shape.dims().end()};
}

std::vector<int64_t> OnAxis(int axes, int axis, int64_t size) {
  std::vector<int64_t> dims(static_cast<size_t>(axes), 1);
  dims[static_cast<size_t>(axis)] = size;
  return dims;
}

std::vector<int64_t> Range(int64_t begin, int64_t end) {
  std::vector<int64_t> range(static_cast<size_t>(std::max<int64_t>(0, end - begin)));
  std::iota(range.begin(), range.end(), begin);
  return range;
}

}  // namespace crema
