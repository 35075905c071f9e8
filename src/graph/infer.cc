#include "graph/infer.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "core/blob_types.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "graph/input_types.h"

namespace crema {
namespace {

// Skips a Split, which the user did not write: passes insert it for values with several readers.
const Value& BeforeSplit(const Graph& graph, const Value& value) {
  const Node& producer = graph.nodes[static_cast<size_t>(value.producer)];
  const bool inserted = producer.source_path.empty() && producer.type->name == "Split";
  return inserted ? graph.values[static_cast<size_t>(producer.inputs[0])] : value;
}

// Skips a layer that converts the bytes of a source (passes/upload_bytes.h): returns the source.
const Node& WrittenProducer(const Graph& graph, const Value& value) {
  const Node& producer = graph.nodes[static_cast<size_t>(value.producer)];
  if (!producer.source_path.empty() || producer.type->name != "PixelsToFloat") return producer;
  const Value& bytes = graph.values[static_cast<size_t>(producer.inputs[0])];
  return graph.nodes[static_cast<size_t>(bytes.producer)];
}

std::string DescribeInputs(const Graph& graph, const Node& node,
                           const std::vector<BlobSpec>& inputs) {
  std::string text;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Value& value = BeforeSplit(graph, graph.values[static_cast<size_t>(node.inputs[i])]);
    const Node& producer = WrittenProducer(graph, value);
    const Where where = graph.Locate(producer, "");
    text += StrCat(i == 0 ? "" : ", ", "'", value.name, "' is ", ToString(inputs[i].shape),
                   " (from layer \"", producer.name(), "\"");
    if (where.line > 0) text += StrCat(", line ", where.line);
    text += ")";
  }
  return text;
}

// Asks whether the bottoms of a layer of scores and labels are in the wrong order.
std::string SwappedHint(const Node& node, const std::vector<BlobSpec>& inputs) {
  const std::string& type = node.layer->param().type();
  if ((type != "SoftmaxWithLoss" && type != "Accuracy") || inputs.size() < 2) return "";
  const Shape& first = inputs[0].shape;
  const Shape& second = inputs[1].shape;
  if (first.count() >= second.count()) return "";
  return StrCat("; ", type, " takes scores, then labels: are its bottoms swapped?");
}

// Returns the problem of an input with the wrong element type, and the layer to insert.
std::optional<Problem> FindWrongType(const Graph& graph, const Node& node,
                                     const std::vector<BlobSpec>& inputs, DType net) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    const DType given = inputs[i].dtype;
    const DType wanted = InputTypeOf(*node.layer, i, given, net);
    if (wanted == given) continue;
    const Value& value = BeforeSplit(graph, graph.values[static_cast<size_t>(node.inputs[i])]);
    const LayerParameter& producer = WrittenProducer(graph, value).layer->param();
    std::string text = StrCat("bottom \"", value.name, "\" holds ");
    if (given == DType::kU8) {
      const bool asked = producer.pipeline_param().output() == PipelineParameter::U8;
      text += StrCat("bytes (u8, from ", asked ? "pipeline_param.output of " : "", "layer \"",
                     producer.name(), "\"): put a PixelsToFloat layer between");
    } else {
      text += StrCat("numbers (", ToString(given), ", from layer \"", producer.name(),
                     "\"), but a layer of type ", node.layer->param().type(), " takes ",
                     ToString(wanted));
      if (wanted == DType::kU8) {
        text += ": set pipeline_param { output: U8 } in the data layer, or remove this layer";
      }
    }
    return Problem{ErrorCode::kInvalidArgument, graph.Locate(node, StrCat("bottom[", i, "]")),
                   std::move(text)};
  }
  return std::nullopt;
}

std::optional<Problem> FindLossOfBytes(const Graph& graph, const Node& node, size_t output,
                                       const BlobSpec& spec) {
  const Value& value = graph.values[static_cast<size_t>(node.outputs[output])];
  if (value.loss_weight == 0 || IsFloatType(spec.dtype)) return std::nullopt;
  return Problem{ErrorCode::kInvalidArgument, graph.Locate(node, "loss_weight"),
                 StrCat("top \"", value.name,
                        "\" holds bytes, which are no loss: remove "
                        "loss_weight")};
}

// Returns the problems of a node, and sets `info` if there are none.
std::vector<Problem> InferNode(const Graph& graph, const Node& node,
                               const std::vector<BlobSpec>& inputs, const InferOptions& options,
                               LayerInfo* info) {
  if (auto problem = FindWrongType(graph, node, inputs, options.dtype)) {
    return {*std::move(problem)};
  }
  std::vector<Problem> problems;
  try {
    *info = node.layer->Infer({.phase = node.layer->param().phase(),
                               .inputs = inputs,
                               .output_count = node.outputs.size(),
                               .dtype = options.dtype,
                               .rank = options.rank,
                               .world = options.world});
  } catch (const Error& error) {
    for (const Problem& problem : error.problems()) {
      Where where = graph.Locate(node, problem.where.field);
      std::string message = problem.message;
      if (!inputs.empty()) message += "; " + DescribeInputs(graph, node, inputs);
      message += SwappedHint(node, inputs);
      problems.push_back({problem.code, std::move(where), std::move(message)});
    }
  }
  return problems;
}

// Restores the earlier result of the node if it now has problems or other parameters.
void KeepBefore(size_t node, InferredBefore* before, LayerInfo* info,
                std::vector<Problem>* problems) {
  const LayerInfo& old = before->infos[node];
  const bool fits =
      problems->empty() && std::ranges::equal(info->parameters, old.parameters, {},
                                              &ParameterInfo::shape, &ParameterInfo::shape);
  before->kept.push_back(!fits);
  if (fits) return;
  *info = old;
  problems->clear();
}

}  // namespace

std::vector<LayerInfo> InferShapes(const Graph& graph, const InferOptions& options) {
  std::vector<Problem> problems;
  std::vector<std::optional<BlobSpec>> specs(graph.values.size());
  std::vector<LayerInfo> infos(graph.nodes.size());
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    const Node& node = graph.nodes[n];
    std::vector<BlobSpec> inputs;
    for (int v : node.inputs) {
      if (specs[static_cast<size_t>(v)]) inputs.push_back(*specs[static_cast<size_t>(v)]);
    }
    if (inputs.size() != node.inputs.size()) continue;  // the cause is reported already
    std::vector<Problem> of_node = InferNode(graph, node, inputs, options, &infos[n]);
    if (options.before != nullptr) KeepBefore(n, options.before, &infos[n], &of_node);
    if (!of_node.empty()) {
      std::ranges::move(of_node, std::back_inserter(problems));
      continue;
    }
    CREMA_CHECK(infos[n].outputs.size() == node.outputs.size());
    for (size_t o = 0; o < node.outputs.size(); ++o) {
      if (auto problem = FindLossOfBytes(graph, node, o, infos[n].outputs[o])) {
        problems.push_back(*std::move(problem));
      }
      specs[static_cast<size_t>(node.outputs[o])] = infos[n].outputs[o];
    }
  }
  if (!problems.empty()) throw Error(std::move(problems));
  return infos;
}

}  // namespace crema
