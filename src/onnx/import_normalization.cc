// Normalizations.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "core/strings.h"
#include "onnx/import_blocks.h"
#include "onnx/import_convert.h"
#include "onnx/import_fold.h"

namespace crema {
namespace {

void ConvertBatchNormalization(NodeImport& node) {
  if (node.Int("training_mode", 0) != 0) node.Refuse("is in training mode");
  if (node.Int("spatial", 1) == 0) node.Refuse("has statistics for each element");
  OnnxBlob x = node.In(0);
  const Dims dims = DimsOf(x);
  if (dims.size() == 1) x = ReshapeBlob(node, x, {dims[0], 1});  // one channel
  std::vector<OnnxTensor> parts;
  for (size_t i = 1; i < 5; ++i) {
    parts.push_back(ToFloats(node.Weights(i, i < 3 ? "scale and bias" : "mean and variance")));
  }
  const float eps = node.Float("epsilon", 1e-5F);
  const OnnxBlob normal = node.Add("BatchNorm", {x},
                                   [&](LayerParameter* layer) {
                                     layer->mutable_batch_norm_param()->set_use_global_stats(true);
                                     if (eps != 1e-5F)
                                       layer->mutable_batch_norm_param()->set_eps(eps);
                                   },
                                   {parts[2], parts[3], MakeFloats({1}, {1})});
  const OnnxBlob y =
      node.Add("Scale", {normal},
               [](LayerParameter* layer) { layer->mutable_scale_param()->set_bias_term(true); },
               {parts[0], parts[1]});
  node.Output(0, dims.size() == 1 ? ReshapeBlob(node, y, dims) : y);
}

// Multiplies by an input and adds another one, each of which may be missing or of any shape that
// broadcasts.
OnnxBlob ScaleAndShift(NodeImport& node, OnnxBlob x, size_t scale, size_t shift) {
  if (node.Has(scale)) x = BinaryBlob(node, BinaryParameter::MUL, x, node.In(scale));
  if (node.Has(shift)) x = BinaryBlob(node, BinaryParameter::ADD, x, node.In(shift));
  return x;
}

void ConvertInstanceNormalization(NodeImport& node) {
  const OnnxBlob x = node.In(0);
  const OnnxTensor scale = ToFloats(node.Weights(1, "scale"));
  const OnnxTensor bias = ToFloats(node.Weights(2, "bias"));
  node.Output(
      0, node.Add("InstanceNorm", {x},
                  [&](LayerParameter* layer) {
                    layer->mutable_instance_norm_param()->set_affine(true);
                    layer->mutable_instance_norm_param()->set_eps(node.Float("epsilon", 1e-5F));
                  },
                  {scale, bias}));
}

// Scale and bias of groups (opset 18) count for all channels of a group.
OnnxTensor ForChannels(const NodeImport& node, const OnnxTensor& values, int64_t channels) {
  if (values.count() == channels) return ReshapeTensor(values, {channels});
  if (values.count() == 0 || channels % values.count() != 0 || channels > kMostMadeElements) {
    node.Refuse("has a scale that does not fit its channels");
  }
  const int64_t each = channels / values.count();
  return ReshapeTensor(
      BroadcastTensor(ReshapeTensor(values, {values.count(), 1}), {values.count(), each}),
      {channels});
}

void ConvertGroupNormalization(NodeImport& node) {
  const OnnxBlob x = node.In(0);
  if (x.shape.axes() < 2) node.Refuse("takes batch and channels");
  const int64_t groups = node.RequiredInt("num_groups");
  if (groups < 1 || groups > x.shape[1]) node.Refuse(StrCat("has ", groups, " groups"));
  const OnnxTensor scale = ToFloats(node.Weights(1, "scale"));
  const OnnxTensor bias = ToFloats(node.Weights(2, "bias"));
  node.Output(
      0, node.Add("GroupNorm", {x},
                  [&](LayerParameter* layer) {
                    GroupNormParameter* param = layer->mutable_group_norm_param();
                    param->set_group(static_cast<uint32_t>(groups));
                    param->set_eps(node.Float("epsilon", 1e-5F));
                  },
                  {ForChannels(node, scale, x.shape[1]), ForChannels(node, bias, x.shape[1])}));
}

// Returns the scale or bias as the axes from `axis` on hold it, if it is constant and fits.
std::optional<OnnxTensor> OfAxes(const NodeImport& node, size_t input, const Shape& x, int axis) {
  const OnnxTensor* constant = node.Constant(input);
  if (constant == nullptr) return std::nullopt;
  const Dims dims(x.dims().begin() + axis, x.dims().end());
  const auto both = BroadcastDims(constant->dims, dims);
  if (!both || *both != dims) return std::nullopt;
  if (BoundedCount(dims) > std::max(constant->count(), kMostMadeElements)) return std::nullopt;
  return BroadcastTensor(ToFloats(*constant), dims);
}

// Mean and 1 / standard deviation, which LayerNormalization may give as well.
void OutputStatistics(NodeImport& node, const OnnxBlob& x, const Dims& axes, float eps) {
  const OnnxBlob mean = ReduceBlob(node, ReductionParameter::MEAN, x, axes);
  node.Output(1, mean);
  if (!node.Wants(2)) return;
  const OnnxBlob centred = BinaryBlob(node, BinaryParameter::SUB, x, mean);
  const OnnxBlob squares = PowerBlob(node, centred, 2, 1, 0);
  const OnnxBlob variance = ReduceBlob(node, ReductionParameter::MEAN, squares, axes);
  node.Output(2, PowerBlob(node, variance, -0.5F, 1, eps));
}

void ConvertLayerNormalization(NodeImport& node) {
  const OnnxBlob x = node.In(0);
  const auto count = static_cast<size_t>(x.shape.axes());
  const auto axis = static_cast<int>(CanonicalAxes(node, {node.Int("axis", -1)}, count)[0]);
  const float eps = node.Float("epsilon", 1e-5F);
  const auto scale = OfAxes(node, 1, x.shape, axis);
  const auto bias = OfAxes(node, 2, x.shape, axis);
  const bool affine = scale && (bias || !node.Has(2));
  std::vector<OnnxTensor> weights;
  if (affine) weights.push_back(*scale);
  if (affine && bias) weights.push_back(*bias);
  OnnxBlob y = node.Add(
      "LayerNorm", {x},
      [&](LayerParameter* layer) {
        LayerNormParameter* param = layer->mutable_layer_norm_param();
        if (axis + 1 != x.shape.axes()) param->set_axis(axis);
        param->set_eps(eps);
        if (!affine) param->set_affine(false);
        if (affine && !bias) param->set_bias_term(false);
      },
      std::move(weights));
  if (!affine) y = ScaleAndShift(node, y, 1, 2);
  node.Output(0, y);
  if (!node.Wants(1) && !node.Wants(2)) return;
  Dims axes;
  for (int i = axis; i < x.shape.axes(); ++i) axes.push_back(i);
  OutputStatistics(node, x, axes, eps);
}

void ConvertRMSNormalization(NodeImport& node) {
  const OnnxBlob x = node.In(0);
  const auto count = static_cast<size_t>(x.shape.axes());
  const auto axis = static_cast<int>(CanonicalAxes(node, {node.Int("axis", -1)}, count)[0]);
  const auto scale = OfAxes(node, 1, x.shape, axis);
  std::vector<OnnxTensor> weights;
  if (scale) weights.push_back(*scale);
  OnnxBlob y = node.Add(
      "RMSNorm", {x},
      [&](LayerParameter* layer) {
        RMSNormParameter* param = layer->mutable_rms_norm_param();
        if (axis + 1 != x.shape.axes()) param->set_axis(axis);
        param->set_eps(node.Float("epsilon", 1e-5F));
        if (!scale) param->set_affine(false);
      },
      std::move(weights));
  node.Output(0, scale ? y : ScaleAndShift(node, y, 1, node.inputs()));
}

void ConvertLRN(NodeImport& node) {
  const int64_t size = node.Int("size", 0);
  if (size < 1 || size % 2 == 0) node.Refuse(StrCat("has an even size, ", size));
  node.Output(0, node.Add("LRN", {node.In(0)}, [&](LayerParameter* layer) {
    LRNParameter* param = layer->mutable_lrn_param();
    param->set_local_size(static_cast<uint32_t>(size));
    param->set_alpha(node.Float("alpha", 0.0001F));
    param->set_beta(node.Float("beta", 0.75F));
    if (node.Float("bias", 1) != 1) param->set_k(node.Float("bias", 1));
  }));
}

void ConvertLpNormalization(NodeImport& node) {
  const OnnxBlob x = node.In(0);
  const Dims axes =
      CanonicalAxes(node, {node.Int("axis", -1)}, static_cast<size_t>(x.shape.axes()));
  const int64_t p = node.Int("p", 2);
  if (p != 1 && p != 2) node.Refuse(StrCat("has p ", p));
  const auto operation = p == 1 ? ReductionParameter::ASUM : ReductionParameter::L2;
  const OnnxBlob norm = ReduceBlob(node, operation, x, axes);
  // If all elements are 0, so is the norm; the result is 0 then.
  const OnnxBlob divisor =
      BinaryBlob(node, BinaryParameter::MAX, norm, std::numeric_limits<float>::min());
  node.Output(0, BinaryBlob(node, BinaryParameter::DIV, x, divisor));
}

void ConvertMeanVarianceNormalization(NodeImport& node) {
  const OnnxBlob x = node.In(0);
  Dims axes = node.IntList("axes");
  if (axes.empty()) axes = {0, 2, 3};
  axes = CanonicalAxes(node, axes, static_cast<size_t>(x.shape.axes()));
  const OnnxBlob mean = ReduceBlob(node, ReductionParameter::MEAN, x, axes);
  const OnnxBlob centred = BinaryBlob(node, BinaryParameter::SUB, x, mean);
  const OnnxBlob squares = PowerBlob(node, centred, 2, 1, 0);
  const OnnxBlob variance = ReduceBlob(node, ReductionParameter::MEAN, squares, axes);
  const OnnxBlob deviation = PowerBlob(node, variance, 0.5F, 1, 0);
  const OnnxBlob divisor = PowerBlob(node, deviation, 1, 1, 1e-9F);
  node.Output(0, BinaryBlob(node, BinaryParameter::DIV, centred, divisor));
}

}  // namespace

void AddNormalizationConverters(ConverterTable* table) {
  (*table)["BatchNormalization"] = ConvertBatchNormalization;
  (*table)["InstanceNormalization"] = ConvertInstanceNormalization;
  (*table)["GroupNormalization"] = ConvertGroupNormalization;
  (*table)["LayerNormalization"] = ConvertLayerNormalization;
  (*table)["RMSNormalization"] = ConvertRMSNormalization;
  (*table)["LRN"] = ConvertLRN;
  (*table)["LpNormalization"] = ConvertLpNormalization;
  (*table)["MeanVarianceNormalization"] = ConvertMeanVarianceNormalization;
}

}  // namespace crema
