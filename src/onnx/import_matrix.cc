// Matrix products.
#include <algorithm>

#include "core/strings.h"
#include "onnx/import_blocks.h"
#include "onnx/import_convert.h"
#include "onnx/import_fold.h"

namespace crema {
namespace {

OnnxTensor Scaled(const OnnxTensor& from, float factor) {
  OnnxTensor floats = ToFloats(from);
  if (factor == 1) return floats;
  std::vector<float> values = *floats.floats;
  for (float& value : values) value *= factor;
  return MakeFloats(floats.dims, std::move(values));
}

// Returns the bias of N outputs that a constant broadcasts to; nothing: it differs among rows.
std::optional<OnnxTensor> BiasOf(const OnnxTensor& constant, int64_t outputs, float factor) {
  if (constant.count() != 1 && constant.count() != outputs) return std::nullopt;
  if (constant.count() != 1 && constant.dims.back() != outputs) return std::nullopt;
  const OnnxTensor flat = ReshapeTensor(Scaled(constant, factor), {constant.count()});
  return BroadcastTensor(flat, {outputs});
}

// x of any number of axes times `weight`, (outputs, inputs), over its last axis.
OnnxBlob InnerProduct(NodeImport& node, const OnnxBlob& x, const OnnxTensor& weight,
                      const std::optional<OnnxTensor>& bias) {
  if (const auto source = SourceOfRows(node, x)) {
    return MoveRows(node, x, InnerProduct(node, *source, weight, bias));
  }
  return InnerProductBlob(node, x, weight, bias);
}

OnnxBlob MatMul(NodeImport& node, const OnnxBlob& a, const OnnxBlob& b, bool transpose_a = false,
                bool transpose_b = false, float scale = 1) {
  return node.Add("MatMul", {a, b}, [&](LayerParameter* layer) {
    MatMulParameter* param = layer->mutable_matmul_param();
    if (transpose_a) param->set_transpose_a(true);
    if (transpose_b) param->set_transpose_b(true);
    if (scale != 1) param->set_scale(scale);
  });
}

// Returns the dimensions with those before the last two replaced.
Dims WithBatch(const OnnxBlob& blob, const Dims& batch) {
  Dims dims = batch;
  dims.push_back(blob.shape[blob.shape.axes() - 2]);
  dims.push_back(blob.shape[blob.shape.axes() - 1]);
  return dims;
}

Dims BatchOf(const OnnxBlob& blob) {
  Dims dims = DimsOf(blob);
  dims.resize(dims.size() - 2);
  return dims;
}

// The product of NumPy's matmul.
OnnxBlob BroadcastMatMul(NodeImport& node, OnnxBlob a, OnnxBlob b) {
  if (a.shape.axes() == 0 || b.shape.axes() == 0) node.Refuse("multiplies a scalar");
  const bool row = a.shape.axes() == 1;
  const bool column = b.shape.axes() == 1;
  if (row) a = ReshapeBlob(node, a, {1, a.shape[0]});
  if (column) b = ReshapeBlob(node, b, {b.shape[0], 1});
  const auto batch = BroadcastDims(BatchOf(a), BatchOf(b));
  if (!batch) node.Refuse("has batch axes that do not fit");
  a = ExpandBlob(node, a, WithBatch(a, *batch));
  OnnxBlob result = MatMul(node, a, b);
  Dims dims = DimsOf(result);
  if (column) dims.pop_back();
  if (row) dims.erase(dims.end() - (column ? 1 : 2));
  return ReshapeBlob(node, result, dims);
}

// A third input, which joining adds, is a constant bias of the outputs.
void ConvertMatMul(NodeImport& node) {
  node.RequireFloats(1);
  const OnnxTensor* weight = node.Constant(1);
  if (weight != nullptr && weight->dims.size() == 2 && node.ShapeOf(0).axes() >= 2) {
    const OnnxBlob a = node.In(0);
    std::optional<OnnxTensor> bias;
    if (node.Has(2)) bias = BiasOf(node.Weights(2, "bias"), weight->dims[1], 1);
    return node.Output(0, InnerProduct(node, a, TransposeTensor(ToFloats(*weight), {1, 0}), bias));
  }
  const OnnxBlob a = node.In(0);
  node.Output(0, BroadcastMatMul(node, a, node.In(1)));
}

// Adds C of Gemm to the product.
OnnxBlob AddC(NodeImport& node, const OnnxBlob& product, float beta) {
  if (!node.Has(2) || beta == 0) return product;
  OnnxBlob c = node.In(2);
  if (beta != 1) c = PowerBlob(node, c, 1, beta, 0);
  return BinaryBlob(node, BinaryParameter::ADD, product, c);
}

void ConvertGemm(NodeImport& node) {
  const float alpha = node.Float("alpha", 1);
  const float beta = node.Float("beta", 1);
  const bool transpose_a = node.Int("transA", 0) != 0;
  const bool transpose_b = node.Int("transB", 0) != 0;
  OnnxBlob a = node.In(0);
  for (const size_t input : {1, 2}) node.RequireFloats(input);
  if (a.shape.axes() != 2 || node.ShapeOf(1).axes() != 2) node.Refuse("takes matrices");
  const OnnxTensor* weight = node.Constant(1);
  if (weight == nullptr) {
    const OnnxBlob product = MatMul(node, a, node.In(1), transpose_a, transpose_b, alpha);
    return node.Output(0, AddC(node, product, beta));
  }
  if (transpose_a) a = PermuteBlob(node, a, {1, 0});
  OnnxTensor rows = Scaled(*weight, alpha);
  if (!transpose_b) rows = TransposeTensor(rows, {1, 0});
  std::optional<OnnxTensor> bias;
  if (node.Constant(2) != nullptr && beta != 0) {
    bias = BiasOf(*node.Constant(2), rows.dims[0], beta);
  }
  const OnnxBlob product = InnerProduct(node, a, rows, bias);
  node.Output(0, bias ? product : AddC(node, product, beta));
}

void ConvertEinsum(NodeImport& node) {
  std::vector<OnnxBlob> inputs;
  for (size_t i = 0; i < node.inputs(); ++i) inputs.push_back(node.In(i));
  node.Output(0, node.Add("Einsum", inputs, [&](LayerParameter* layer) {
    layer->mutable_einsum_param()->set_equation(node.String("equation", ""));
  }));
}

}  // namespace

void AddMatrixConverters(ConverterTable* table) {
  (*table)["MatMul"] = ConvertMatMul;
  (*table)["Gemm"] = ConvertGemm;
  (*table)["Einsum"] = ConvertEinsum;
}

}  // namespace crema
