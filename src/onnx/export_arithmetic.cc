// Sums, products and choices: Eltwise, Scale, InnerProduct, MatMul, Reduction, ArgMax, Gather, ...
#include <limits>

#include "crema.pb.h"
#include "layers/fused_relu.h"
#include "onnx/export_layer.h"

namespace crema {
namespace {

void Eltwise(LayerExport& e) {
  const EltwiseParameter& p = e.param.eltwise_param();
  if (p.operation() == EltwiseParameter::MAX) {
    e.out = {e.Add("Max", e.in)};
    return;
  }
  const bool sum = p.operation() == EltwiseParameter::SUM;
  std::string y;
  for (size_t i = 0; i < e.in.size(); ++i) {
    const bool factor = sum && p.coeff_size() > 0;
    const std::string x = factor ? e.Affine(e.in[i], p.coeff(static_cast<int>(i)), 0) : e.in[i];
    y = i == 0 ? x : e.Add(sum ? "Add" : "Mul", {y, x});
  }
  e.out = {y};
}

void Axpy(LayerExport& e) {
  std::string a = e.in[0];
  std::vector<int64_t> missing = Range(e.shape(0).axes(), e.shape(1).axes());
  if (e.shape(0).axes() > e.shape(1).axes()) {
    a = e.Squeeze(a, Range(e.shape(1).axes(), e.shape(0).axes()));
  }
  a = e.Unsqueeze(a, missing);
  e.out = {e.Add("Add", {e.Add("Mul", {a, e.in[1]}), e.in[2]})};
}

// The second bottom or parameter `index`, covering axes of x from `axis` on, with ones after it.
std::string Covering(LayerExport& e, int64_t axis_field, bool given, size_t index) {
  const Shape& x = e.shape();
  const Shape& small = given ? e.shape(1) : e.parameters[index].shape();
  // A scalar covers all.
  const int first = small.axes() == 0 ? x.axes() : x.CanonicalAxis(axis_field);
  const int after = x.axes() - first - small.axes();
  if (given) return e.Unsqueeze(e.in[1], Range(small.axes(), small.axes() + after));
  std::vector<int64_t> dims = DimsOf(small);
  dims.resize(dims.size() + static_cast<size_t>(after), 1);
  return e.Parameter(index, dims);
}

void Scale(LayerExport& e) {
  const ScaleParameter& p = e.param.scale_param();
  const bool given = e.in.size() > 1;
  std::string y = e.Add("Mul", {e.in[0], Covering(e, p.axis(), given, 0)});
  if (p.bias_term()) {
    const size_t index = given ? 0 : 1;
    y = e.Add("Add", {y, Covering(e, p.axis(), false, index)});
  }
  e.out = {y};
}

void Bias(LayerExport& e) {
  const bool given = e.in.size() > 1;
  e.out = {e.Add("Add", {e.in[0], Covering(e, e.param.bias_param().axis(), given, 0)})};
}

void InnerProduct(LayerExport& e) {
  const InnerProductParameter& p = e.param.inner_product_param();
  const int axis = e.shape().CanonicalAxis(p.axis());
  const FusedRelu relu = ReluOf(e.layer, {});
  std::string x = e.in[0];
  if (axis != 1 || e.shape().axes() != 2) x = e.Add("Flatten", {x}, {{"axis", axis}});
  std::vector<std::string> inputs = {x, e.Parameter(0)};
  if (p.bias_term()) inputs.push_back(e.Parameter(1, {e.parameters[1].count()}));
  std::string y = e.Add("Gemm", inputs, {{"transB", p.transpose() ? 0 : 1}});
  if (axis != 1) {
    const Shape rows{e.shape().count(0, axis), int64_t{p.num_output()}};
    y = e.Reshape(y, rows, e.out_shape(), e.open[0] && axis > 0);
  }
  e.out = {e.Activate(y, relu.on, relu.slope)};
}

void MatMul(LayerExport& e) {
  const MatMulParameter& p = e.param.matmul_param();
  const auto operand = [&](size_t i, bool transpose) {
    std::vector<int64_t> order = Range(0, e.shape(i).axes());
    if (transpose) std::swap(order[order.size() - 2], order[order.size() - 1]);
    return e.Transpose(e.in[i], order);
  };
  const std::string a = operand(0, p.transpose_a());
  const std::string b = operand(1, p.transpose_b());
  e.out = {e.Affine(e.Add("MatMul", {a, b}), p.scale(), 0)};
}

const char* FoldOf(const LayerExport& e) {
  switch (e.param.reduction_param().operation()) {
    case ReductionParameter::SUM:
      return "ReduceSum";
    case ReductionParameter::ASUM:
      return "ReduceL1";
    case ReductionParameter::SUMSQ:
      return "ReduceSumSquare";
    case ReductionParameter::MEAN:
      return "ReduceMean";
    case ReductionParameter::MAX:
      return "ReduceMax";
    case ReductionParameter::MIN:
      return "ReduceMin";
    case ReductionParameter::PROD:
      return "ReduceProd";
    case ReductionParameter::L2:
      return "ReduceL2";
    case ReductionParameter::LOG_SUM:
      return "ReduceLogSum";
    case ReductionParameter::LOG_SUM_EXP:
      return "ReduceLogSumExp";
    default:
      e.Refuse("its operation is not known");
  }
}

void Reduction(LayerExport& e) {
  const ReductionParameter& p = e.param.reduction_param();
  const int count = e.shape().axes();
  std::vector<int64_t> axes;
  if (p.axes_size() > 0) {
    for (const int32_t axis : p.axes()) axes.push_back(e.shape().CanonicalAxis(axis));
  } else if (count > 0) {
    axes = Range(e.shape().CanonicalAxis(p.axis()), count);
  }
  std::string x = e.in[0];
  bool keep = p.keep_dims();
  if (axes.empty()) {  // each element alone
    x = e.Unsqueeze(x, {count});
    axes = {count};
    keep = false;
  }
  e.out = {e.Affine(OnnxReduce(&e.graph, FoldOf(e), x, axes, keep), p.coeff(), 0)};
}

// Positions count from the end in the reversed axis, where TopK and ArgMax prefer the first of
// equal values: Crema prefers the last.
void ArgMax(LayerExport& e) {
  const ArgMaxParameter& p = e.param.argmax_param();
  const bool whole = !p.has_axis();
  const int axis = whole ? 1 : e.shape().CanonicalAxis(p.axis());
  const int64_t size = whole ? e.shape().count(1) : e.shape()[axis];
  std::string x = e.in[0];
  if (whole) x = e.Reshape(x, Shape{e.shape()[0], size});
  std::string positions, values;
  if (p.top_k() == 1 && !p.out_max_val()) {
    positions = e.Add("ArgMax", {x}, {{"axis", axis}, {"select_last_index", 1}});
  } else {
    const std::string reversed =
        e.Add("Slice", {x, e.graph.Ints({-1}), e.graph.Ints({std::numeric_limits<int64_t>::min()}),
                        e.graph.Ints({axis}), e.graph.Ints({-1})});
    const std::vector<std::string> top = e.graph.AddMany(
        "TopK", {reversed, e.graph.Ints({int64_t{p.top_k()}})}, 2, {{"axis", axis}});
    values = top[0];
    positions = e.Add("Sub", {e.graph.Int(size - 1), top[1]});
  }
  if (!whole) {
    e.out = {p.out_max_val() ? values : e.ToFloat(positions)};
    return;
  }
  std::string y = e.Unsqueeze(e.ToFloat(positions), {1});
  if (p.out_max_val()) {
    y = e.Add("Concat", {y, e.Unsqueeze(values, {1})}, {{"axis", 1}});
  }
  e.out = {e.Unsqueeze(y, Range(3, e.out_shape().axes()))};
}

void BatchReindex(LayerExport& e) {
  const std::string index = e.Reshape(e.in[1], e.shape(1), Shape{e.shape(1).count()}, e.open[1]);
  e.out = {e.Add("Gather", {e.in[0], e.ToInt(index)}, {{"axis", 0}})};
}

void Embed(LayerExport& e) {
  std::string y = e.Add("Gather", {e.Parameter(0), e.ToInt(e.in[0])}, {{"axis", 0}});
  if (e.param.embed_param().bias_term()) y = e.Add("Add", {y, e.Parameter(1)});
  e.out = {y};
}

std::string Integer(LayerExport& e, double low, double high) {
  const std::string& x = e.in[0];
  const std::string whole = e.Add("Mul", {e.Add("Sign", {x}), e.Add("Floor", {e.Add("Abs", {x})})});
  const std::string bounded = e.Add("Clip", {whole, e.graph.Scalar(low), e.graph.Scalar(high)});
  return e.Add("Where", {e.Add("IsNaN", {x}), e.graph.Scalar(0), bounded});
}

void Cast(LayerExport& e) {
  const std::string& x = e.in[0];
  switch (e.param.cast_param().to()) {
    case FLOAT16:
      e.out = {e.ToFloat(e.Add("Cast", {x}, {{"to", int64_t{onnx::TensorProto::FLOAT16}}}))};
      break;
    case INT:
      e.out = {Integer(e, -2147483648.0, 2147483647.0)};
      break;
    case UINT:
      e.out = {Integer(e, 0, 4294967295.0)};
      break;
    case BOOL:
      e.out = {e.ToFloat(e.Add("Not", {e.Add("Equal", {x, e.graph.Scalar(0)})}))};
      break;
    default:
      e.out = {x};
  }
}

void CosineSimilarity(LayerExport& e) {
  const CosineSimilarityParameter& p = e.param.cosine_similarity_param();
  const std::vector<int64_t> axes = Range(e.shape().CanonicalAxis(p.axis()), e.shape().axes());
  const auto length = [&](const std::string& x) {
    return OnnxReduce(&e.graph, "ReduceL2", x, axes, false);
  };
  const std::string dot =
      OnnxReduce(&e.graph, "ReduceSum", e.Add("Mul", {e.in[0], e.in[1]}), axes, false);
  const std::string lengths = e.Add("Mul", {length(e.in[0]), length(e.in[1])});
  e.out = {e.Add("Div", {dot, e.Add("Max", {lengths, e.graph.Scalar(p.eps())})})};
}

void Parameter(LayerExport& e) { e.out = {e.Add("Identity", {e.Parameter(0)})}; }

// Adds what the layer gives for zeros.
void PositionEmbedding(LayerExport& e) {
  const int axis = e.shape().CanonicalAxis(e.param.position_embedding_param().axis());
  std::vector<int64_t> dims = DimsOf(e.shape());
  for (int a = 0; a < axis; ++a) dims[static_cast<size_t>(a)] = 1;
  const std::vector<float> table = e.RunNative({Shape(std::span<const int64_t>(dims))});
  e.out = {e.Add("Add", {e.in[0], e.graph.Floats(dims, table, !e.parameters.empty())})};
}

}  // namespace

void AddArithmeticEmitters(EmitterTable* table) {
  table->insert({
      {"ArgMax", ArgMax},
      {"Axpy", Axpy},
      {"BatchReindex", BatchReindex},
      {"Bias", Bias},
      {"Cast", Cast},
      {"CosineSimilarity", CosineSimilarity},
      {"Eltwise", Eltwise},
      {"Embed", Embed},
      {"InnerProduct", InnerProduct},
      {"MatMul", MatMul},
      {"Parameter", Parameter},
      {"PositionEmbedding", PositionEmbedding},
      {"Reduction", Reduction},
      {"Scale", Scale},
  });
}

}  // namespace crema
