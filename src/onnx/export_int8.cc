#include "onnx/export_int8.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>

#include "core/error.h"
#include "core/half.h"
#include "core/strings.h"
#include "layers/int8_ranges.h"

namespace crema {
namespace {

using onnx::TensorProto;

bool IsProduct(const std::string& type) {
  static const std::set<std::string> kTypes = {"Convolution", "ConvolutionDepthwise",
                                               "DepthwiseConvolution", "InnerProduct"};
  return kTypes.contains(type);
}

std::string Rounded(LayerExport* e, const std::string& x, const Int8Range& range) {
  const Int8Scale scale = ScaleOf(range);
  const std::string step = e->graph.Scalar(scale.step);
  const std::string zero = e->graph.Bytes(
      {}, scale.is_signed ? TensorProto::INT8 : TensorProto::UINT8, std::string(1, '\0'));
  return e->Add("DequantizeLinear", {e->Add("QuantizeLinear", {x, step, zero}), step, zero});
}

// The largest magnitude of each output becomes 127.
std::string RoundedWeights(LayerExport* e) {
  const Shape& shape = e->parameters[0].shape();
  const bool last = e->param.type() == "InnerProduct" && e->param.inner_product_param().transpose();
  const int axis = last ? 1 : 0;
  const int64_t outputs = shape[axis], inner = shape.count(axis + 1);
  const std::vector<float> values = e->Values(0);
  std::vector<float> steps(static_cast<size_t>(outputs), 0);
  const auto output_of = [&](size_t i) {
    return static_cast<size_t>(static_cast<int64_t>(i) / inner % outputs);
  };
  for (size_t i = 0; i < values.size(); ++i) {
    float& most = steps[output_of(i)];
    most = std::max(most, std::abs(values[i]));
  }
  for (float& step : steps) step = step > 0 ? step / 127 : 1;
  std::string bytes(values.size(), '\0');
  for (size_t i = 0; i < values.size(); ++i) {
    const float whole = std::nearbyint(values[i] / steps[output_of(i)]);
    bytes[i] = static_cast<char>(static_cast<int8_t>(std::clamp(whole, -127.0F, 127.0F)));
  }
  return e->Add("DequantizeLinear",
                {e->graph.Bytes(DimsOf(shape), TensorProto::INT8, std::move(bytes)),
                 e->graph.Floats({outputs}, steps)},
                {{"axis", axis}});
}

std::string Halves(const OnnxConstant& constant) {
  std::vector<float> values;
  if (constant.bytes.empty()) {
    const std::span<const float> weights = constant.weight.span<float>();
    values.assign(weights.begin(), weights.end());
  } else {
    values.resize(constant.bytes.size() / sizeof(float));
    std::memcpy(values.data(), constant.bytes.data(), constant.bytes.size());
  }
  std::string bytes(values.size() * sizeof(uint16_t), '\0');
  for (size_t i = 0; i < values.size(); ++i) {
    if (!(std::abs(values[i]) < 65520)) {
      Fail(ErrorCode::kInvalidArgument,
           StrCat("the weight '", constant.name, "' has the value ", values[i],
                  ", which float16 cannot hold; export it in single precision"));
    }
    const uint16_t half = FloatToHalf(values[i]);
    std::memcpy(bytes.data() + 2 * i, &half, sizeof(half));
  }
  return bytes;
}

}  // namespace

void QuantizeInt8(const NetParameter& net, const PlanOptions& options, LayerExport* e) {
  const Precision precision = e->param.has_precision() ? e->param.precision()
                              : net.has_precision()    ? net.precision()
                                                       : options.precision;
  const bool product = IsProduct(e->param.type());
  const bool moves = e->param.type() == "Pooling" || e->param.type() == "Concat";
  if (precision != INT8 || !(product || moves)) return;
  // Only images and rows are computed on bytes.
  if (e->param.type() != "InnerProduct" && e->shape().axes() != 4) return;
  const Int8Ranges& ranges = e->param.int8();
  if (ranges.bottom_size() != static_cast<int>(e->in.size())) return;
  for (size_t i = 0; i < e->in.size(); ++i) {
    e->in[i] = Rounded(e, e->in[i], ranges.bottom(static_cast<int>(i)));
  }
  if (product) e->rounded_weight = RoundedWeights(e);
}

void HalveWeights(OnnxExport* exported) {
  std::vector<onnx::NodeProto> casts;
  for (OnnxConstant& constant : exported->constants) {
    const auto wide = std::ranges::count_if(constant.dims, [](int64_t dim) { return dim > 1; });
    if (!constant.is_weight || constant.type != TensorProto::FLOAT || wide < 2) continue;
    onnx::NodeProto& cast = casts.emplace_back();
    cast.set_op_type("Cast");
    cast.set_name(StrCat(constant.name, "/Cast"));
    cast.add_output(constant.name);
    constant.bytes = Halves(constant);
    constant.type = TensorProto::FLOAT16;
    constant.name += "/float16";
    cast.add_input(constant.name);
    *cast.add_attribute() = OnnxAttribute("to", int64_t{TensorProto::FLOAT}).proto;
  }
  onnx::GraphProto* graph = exported->model.mutable_graph();
  for (const onnx::NodeProto& node : graph->node()) casts.push_back(node);
  graph->mutable_node()->Assign(casts.begin(), casts.end());
}

}  // namespace crema
