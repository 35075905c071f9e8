// Losses, of layers that nets for inference have.
#include <numeric>

#include "core/strings.h"
#include "onnx/import_blocks.h"
#include "onnx/import_convert.h"

namespace crema {
namespace {

// The sum of all elements, as a scalar.
OnnxBlob SumAll(NodeImport& node, const OnnxBlob& x) {
  Dims axes(static_cast<size_t>(x.shape.axes()));
  std::iota(axes.begin(), axes.end(), 0);
  return ReshapeBlob(node, ReduceBlob(node, ReductionParameter::SUM, x, axes), {});
}

// The weight of each target: that of its class, 0 for ignore_index; nothing: all are 1.
std::optional<OnnxBlob> TargetWeights(NodeImport& node, const OnnxBlob& target,
                                      const OnnxBlob& safe) {
  std::optional<OnnxBlob> weights;
  if (node.Has(2)) {
    const OnnxBlob classes = node.In(2);
    weights = node.Add("Gather", {classes, safe});
  }
  if (!node.HasAttribute("ignore_index")) return weights;
  const auto ignored = static_cast<float>(node.Int("ignore_index", 0));
  const OnnxBlob counts = UnaryBlob(node, UnaryParameter::NOT,
                                    BinaryBlob(node, BinaryParameter::EQUAL, target, ignored));
  return weights ? BinaryBlob(node, BinaryParameter::MUL, *weights, counts) : counts;
}

// -x at the target of each place, weighted, and reduced.
OnnxBlob Loss(NodeImport& node, const OnnxBlob& x) {
  if (x.shape.axes() < 2) node.Refuse("takes batch and classes");
  const OnnxBlob target = node.In(1);
  const auto last = static_cast<float>(x.shape[1] - 1);
  const OnnxBlob safe = node.Add("Clip", {target}, [&](LayerParameter* layer) {
    layer->mutable_clip_param()->set_min(0);
    layer->mutable_clip_param()->set_max(last);
  });
  Dims one = DimsOf(target);
  one.insert(one.begin() + 1, 1);
  const OnnxBlob index = ReshapeBlob(node, safe, one);
  const OnnxBlob chosen = node.Add("Gather", {x, index}, [](LayerParameter* layer) {
    layer->mutable_gather_param()->set_axis(1);
    layer->mutable_gather_param()->set_mode(GatherParameter::ELEMENTS);
  });
  OnnxBlob loss = PowerBlob(node, ReshapeBlob(node, chosen, DimsOf(target)), 1, -1, 0);
  const auto weights = TargetWeights(node, target, safe);
  if (weights) loss = BinaryBlob(node, BinaryParameter::MUL, loss, *weights);
  const std::string reduction = node.String("reduction", "mean");
  if (reduction == "none") return loss;
  const OnnxBlob sum = SumAll(node, loss);
  if (reduction == "sum") return sum;
  if (weights) return BinaryBlob(node, BinaryParameter::DIV, sum, SumAll(node, *weights));
  return PowerBlob(node, sum, 1, 1 / static_cast<float>(loss.shape.count()), 0);
}

void ConvertNegativeLogLikelihood(NodeImport& node) {
  const OnnxBlob x = node.In(0);
  node.Output(0, Loss(node, x));
}

void ConvertSoftmaxCrossEntropy(NodeImport& node) {
  const OnnxBlob logarithms = node.Add("LogSoftmax", {node.In(0)});
  node.Output(0, Loss(node, logarithms));
  node.Output(1, logarithms);
}

}  // namespace

void AddLossConverters(ConverterTable* table) {
  (*table)["NegativeLogLikelihoodLoss"] = ConvertNegativeLogLikelihood;
  (*table)["SoftmaxCrossEntropyLoss"] = ConvertSoftmaxCrossEntropy;
}

}  // namespace crema
