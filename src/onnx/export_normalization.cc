// Layers that normalise.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "crema.pb.h"
#include "layers/normalization/batch_norm_base.h"
#include "onnx/export_layer.h"

namespace crema {
namespace {

std::string Mean(LayerExport& e, const std::string& x, const std::vector<int64_t>& axes) {
  return OnnxReduce(&e.graph, "ReduceMean", x, axes, true);
}

// Parameter `index` as C x 1 x .., for axis 1 of `axes`.
std::string Channels(LayerExport& e, int index, int axes, int channel_axis) {
  std::vector<int64_t> dims(static_cast<size_t>(axes - channel_axis), 1);
  const auto at = static_cast<size_t>(index);
  dims[0] = e.parameters[at].count();
  return e.Parameter(at, dims);
}

// y * scale + shift by channel; negative indices: none.
std::string ScaleAndShift(LayerExport& e, std::string y, int scale, int shift, int channel_axis) {
  const int axes = e.shape().axes();
  if (scale >= 0) y = e.Add("Mul", {y, Channels(e, scale, axes, channel_axis)});
  if (shift >= 0) y = e.Add("Add", {y, Channels(e, shift, axes, channel_axis)});
  return y;
}

// Statistics of the batch.
void NormalizeByBatch(LayerExport& e, const BatchNormBase& layer) {
  const BatchNormRule& rule = layer.rule();
  std::vector<int64_t> axes;
  const bool channels = rule.axis < e.shape().axes();
  const int axis = channels ? static_cast<int>(rule.axis) : 0;
  for (const int64_t a : Range(0, e.shape().axes())) {
    if (!channels || a != axis) axes.push_back(a);
  }
  const std::string centered = e.Add("Sub", {e.in[0], Mean(e, e.in[0], axes)});
  const std::string variance = Mean(e, e.Add("Mul", {centered, centered}), axes);
  const std::string deviation = e.Add("Sqrt", {e.Affine(variance, 1, rule.eps)});
  const std::string y = e.Add("Div", {centered, deviation});
  e.out = {
      e.Activate(ScaleAndShift(e, y, rule.scale, rule.shift, axis), rule.relu.on, rule.relu.slope)};
}

// Stored mean or variance, divided by the factor.
std::vector<float> Stored(const LayerExport& e, const BatchNormRule& rule, int index) {
  std::vector<float> values = e.Values(static_cast<size_t>(index));
  if (rule.factor < 0) return values;
  const double factor = e.Values(static_cast<size_t>(rule.factor))[0];
  for (float& value : values) {
    value = factor == 0 ? 0 : static_cast<float>(static_cast<double>(value) / factor);
  }
  return values;
}

// One node by the stored statistics of axis 1.
std::string StoredNode(LayerExport& e, const BatchNormRule& rule) {
  const std::vector<float> mean = Stored(e, rule, rule.mean);
  const std::vector<int64_t> dims = {static_cast<int64_t>(mean.size())};
  const auto affine = [&](int index, float otherwise) {
    if (index >= 0) return e.Parameter(static_cast<size_t>(index), dims);
    return e.graph.Floats(dims, std::vector<float>(mean.size(), otherwise));
  };
  return e.Add(
      "BatchNormalization",
      {e.in[0], affine(rule.scale, 1), affine(rule.shift, 0), e.graph.Floats(dims, mean, true),
       e.graph.Floats(dims, Stored(e, rule, rule.variance), true)},
      {{"epsilon", rule.eps}});
}

// A factor and a sum for each channel.
std::string FactorAndSum(LayerExport& e, const BatchNormBase& layer) {
  const BatchNormRule& rule = layer.rule();
  const bool channels = rule.axis < e.shape().axes();
  const int axis = channels ? static_cast<int>(rule.axis) : 0;
  const auto count = static_cast<size_t>(channels ? e.shape()[axis] : 1);
  std::vector<double> factor(count), shift(count);
  layer.ReadChannelAffine(e.parameters, factor, shift);
  std::vector<int64_t> dims(static_cast<size_t>(e.shape().axes() - axis), 1);
  dims[0] = static_cast<int64_t>(count);
  const auto constant = [&](const std::vector<double>& values) {
    return e.graph.Floats(dims, {values.begin(), values.end()}, true);
  };
  return e.Add("Add", {e.Add("Mul", {e.in[0], constant(factor)}), constant(shift)});
}

void BatchNorm(LayerExport& e) {
  const auto& layer = dynamic_cast<const BatchNormBase&>(e.layer);
  const BatchNormRule& rule = layer.rule();
  if (layer.UsesBatch(TEST)) return NormalizeByBatch(e, layer);
  const bool one_node = !rule.identity && rule.axis == 1 && e.shape().axes() > 1;
  const std::string y = one_node ? StoredNode(e, rule) : FactorAndSum(e, layer);
  e.out = {e.Activate(y, rule.relu.on, rule.relu.slope)};
}

void Lrn(LayerExport& e) {
  const LRNParameter& p = e.param.lrn_param();
  const std::string& x = e.in[0];
  const int64_t size = p.local_size();
  if (p.norm_region() == LRNParameter::ACROSS_CHANNELS) {
    const Shape& shape = e.shape();
    const Shape four{shape[0], shape[1], shape.axes() > 2 ? shape[2] : 1,
                     shape.axes() > 3 ? shape.count(3) : 1};
    const std::string y =
        e.Add("LRN", {e.Reshape(x, four)},
              {{"size", size}, {"alpha", p.alpha()}, {"beta", p.beta()}, {"bias", p.k()}});
    e.out = {e.Reshape(y, four, shape, e.open[0])};
    return;
  }
  const auto spatial = static_cast<size_t>(e.shape().axes() - 2);
  if (spatial > 3) e.Refuse("it has more than three spatial axes, which no runtime pools");
  // A window wider than all of an axis has the same cells as one of twice its size less 1.
  std::vector<int64_t> kernel, pads;
  double share = 1;
  for (size_t a = 0; a < spatial; ++a) {
    const int64_t most = std::max<int64_t>(1, 2 * e.shape()[static_cast<int>(a) + 2] - 1);
    kernel.push_back(std::min(size, most));
    share *= static_cast<double>(kernel.back()) / static_cast<double>(size);
  }
  for (size_t side = 0; side < 2; ++side) {
    for (const int64_t width : kernel) pads.push_back((width - 1) / 2);
  }
  const std::string mean =
      e.Add("AveragePool", {e.Add("Mul", {x, x})},
            {{"kernel_shape", kernel}, {"pads", pads}, {"count_include_pad", 1}});
  const std::string base = e.Affine(mean, share * p.alpha(), 1);
  e.out = {e.Add("Mul", {x, e.Add("Pow", {base, e.graph.Scalar(-p.beta())})})};
}

void Mvn(LayerExport& e) {
  const MVNParameter& p = e.param.mvn_param();
  std::vector<int64_t> axes = Range(p.across_channels() ? 1 : 2, e.shape().axes());
  const std::string& x = e.in[0];
  // Without axes each element is a group: it equals its mean.
  const std::string y = e.Add("Sub", {x, axes.empty() ? x : Mean(e, x, axes)});
  if (!p.normalize_variance()) {
    e.out = {y};
    return;
  }
  const std::string square = e.Add("Mul", {y, y});
  const std::string deviation = e.Add("Sqrt", {axes.empty() ? square : Mean(e, square, axes)});
  // A plane of equal values gives 0, also without eps.
  const std::string divisor = p.eps() > 0 ? e.Affine(deviation, 1, p.eps())
                                          : e.Add("Max", {deviation, e.graph.Scalar(1e-30)});
  e.out = {e.Add("Div", {y, divisor})};
}

void Normalize(LayerExport& e) {
  const NormalizeParameter& p = e.param.norm_param();
  const std::vector<int64_t> axes =
      p.across_spatial() ? Range(1, e.shape().axes()) : std::vector<int64_t>{1};
  const std::string sum = OnnxReduce(&e.graph, "ReduceSumSquare", e.in[0], axes, true);
  const std::string y = e.Add("Div", {e.in[0], e.Add("Sqrt", {e.Affine(sum, 1, p.eps())})});
  e.out = {p.channel_shared() ? e.Add("Mul", {y, e.Parameter(0, {})})
                              : ScaleAndShift(e, y, 0, -1, 1)};
}

// Groups of channels of each sample, by InstanceNormalization of N x groups x elements.
void NormalizeGroups(LayerExport& e, int64_t groups, double eps, bool affine) {
  const Shape& shape = e.shape();
  const Shape split{shape[0], groups, groups == 0 ? 0 : shape.count(1) / groups};
  const std::vector<float> ones(static_cast<size_t>(groups), 1);
  const std::vector<float> zeros(static_cast<size_t>(groups), 0);
  const bool own = affine && groups == shape[1];  // the operator's own scale and bias
  const std::string scale = own ? e.Parameter(0) : e.graph.Floats({groups}, ones);
  const std::string bias = own ? e.Parameter(1) : e.graph.Floats({groups}, zeros);
  const bool direct = groups == shape[1] && shape.axes() > 2;
  std::string y = direct ? e.in[0] : e.Reshape(e.in[0], split);
  y = e.Add("InstanceNormalization", {y, scale, bias}, {{"epsilon", eps}});
  if (!direct) y = e.Reshape(y, split, shape, e.open[0]);
  e.out = {affine && !own ? ScaleAndShift(e, y, 0, 1, 1) : y};
}

void GroupNorm(LayerExport& e) {
  const GroupNormParameter& p = e.param.group_norm_param();
  NormalizeGroups(e, p.group(), p.eps(), p.affine());
}

void InstanceNorm(LayerExport& e) {
  const InstanceNormParameter& p = e.param.instance_norm_param();
  NormalizeGroups(e, e.shape()[1], p.eps(), p.affine());
}

void LayerNorm(LayerExport& e) {
  const LayerNormParameter& p = e.param.layer_norm_param();
  const int axis = e.shape().CanonicalAxis(p.axis());
  const bool bias = p.affine() && p.bias_term();
  const std::vector<int64_t> axes = Range(axis, e.shape().axes());
  if (e.graph.opset() >= 17) {
    std::vector<int64_t> dims;
    for (const int64_t a : axes) dims.push_back(e.shape()[static_cast<int>(a)]);
    const auto count = static_cast<size_t>(e.shape().count(axis));
    const std::string scale =
        p.affine() ? e.Parameter(0) : e.graph.Floats(dims, std::vector<float>(count, 1));
    e.out = {e.Add("LayerNormalization", {e.in[0], scale, bias ? e.Parameter(1) : std::string()},
                   {{"axis", axis}, {"epsilon", p.eps()}})};
    return;
  }
  const std::string centered = e.Add("Sub", {e.in[0], Mean(e, e.in[0], axes)});
  const std::string variance = Mean(e, e.Add("Mul", {centered, centered}), axes);
  std::string y = e.Add("Div", {centered, e.Add("Sqrt", {e.Affine(variance, 1, p.eps())})});
  if (p.affine()) y = e.Add("Mul", {y, e.Parameter(0)});
  e.out = {bias ? e.Add("Add", {y, e.Parameter(1)}) : y};
}

void RmsNorm(LayerExport& e) {
  const RMSNormParameter& p = e.param.rms_norm_param();
  const int axis = e.shape().CanonicalAxis(p.axis());
  if (e.graph.opset() >= 23 && p.affine()) {
    e.out = {e.Add("RMSNormalization", {e.in[0], e.Parameter(0)},
                   {{"axis", axis}, {"epsilon", p.eps()}})};
    return;
  }
  const std::string mean = Mean(e, e.Add("Mul", {e.in[0], e.in[0]}), Range(axis, e.shape().axes()));
  const std::string y = e.Add("Div", {e.in[0], e.Add("Sqrt", {e.Affine(mean, 1, p.eps())})});
  e.out = {p.affine() ? e.Add("Mul", {y, e.Parameter(0)}) : y};
}

}  // namespace

void AddNormalizationEmitters(EmitterTable* table) {
  table->insert({
      {"BN", BatchNorm},
      {"BatchNorm", BatchNorm},
      {"GroupNorm", GroupNorm},
      {"InstanceNorm", InstanceNorm},
      {"LRN", Lrn},
      {"LayerNorm", LayerNorm},
      {"MVN", Mvn},
      {"Normalize", Normalize},
      {"RMSNorm", RmsNorm},
  });
}

}  // namespace crema
