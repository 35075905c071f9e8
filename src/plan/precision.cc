#include "plan/precision.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/bfloat16.h"
#include "core/strings.h"
#include "crema.pb.h"

namespace crema {
namespace {

bool IsBFloat16(std::string_view implementation) {
  return implementation.find(" bf16") != std::string_view::npos;
}

Problem Refused(std::string message, Where where) {
  where.field = "precision";
  return {.code = ErrorCode::kInvalidArgument,
          .where = std::move(where),
          .message = std::move(message)};
}

// Returns the reason why no layer may use this precision, or an empty string.
std::string WhyNot(Precision precision, const PlanOptions& options) {
  const bool cpu = options.device.type == DeviceType::kCpu;
  if (cpu && precision == FP16) {
    return "precision FP16 is for a GPU; on the CPU there are FP32, BF16 and INT8";
  }
  if (precision == INT8 && !cpu) return "precision INT8 is for the CPU";
  if (precision == INT8 && options.backward) {
    return "precision INT8 is for nets that are trained already: bytes have no gradients";
  }
  return {};
}

// Warns once that TF32 has no effect on the CPU. It only allows rounding, so a net for GPUs runs
// unchanged.
void WarnOfTf32(const Graph& graph, const NetParameter& net, const PlanOptions& options,
                std::vector<Problem>* warnings) {
  if (options.device.type != DeviceType::kCpu) return;
  Where where;
  bool asks = options.precision == TF32;
  if (asks && net.has_precision()) where = graph.source.Locate("precision");
  for (const Node& node : graph.nodes) {
    if (asks || PrecisionOf(*node.layer, options) != TF32) continue;
    asks = true;
    where = graph.Locate(node, "precision");
  }
  if (!asks) return;
  where.field = "precision";
  warnings->push_back({ErrorCode::kInvalidArgument, std::move(where),
                       "precision TF32 is for a GPU; the CPU computes in FP32"});
}

bool HasRanges(const Int8Ranges& ranges, size_t bottoms, size_t tops) {
  const auto are_there = [](const auto& all, size_t count) {
    if (static_cast<size_t>(all.size()) < count) return false;
    return std::all_of(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(count),
                       [](const Int8Range& range) { return range.max() > 0; });
  };
  return are_there(ranges.bottom(), bottoms) && are_there(ranges.top(), tops);
}

bool AsksForInt8(const Node& node, const PlanOptions& options) {
  return PrecisionOf(*node.layer, options) == INT8;
}

// Reports inputs whose int8 range differs from that of their producer.
void CheckReaders(const Graph& graph, const Node& node, std::vector<Problem>* problems) {
  const auto& bottoms = node.layer->param().int8().bottom();
  for (int i = 0; i < bottoms.size() && i < static_cast<int>(node.inputs.size()); ++i) {
    if (!bottoms[i].has_max()) continue;
    const int v = node.inputs[static_cast<size_t>(i)];
    const Int8Range* made = Int8RangeOf(graph, v);
    if (made != nullptr && made->max() == bottoms[i].max() &&
        made->non_negative() == bottoms[i].non_negative()) {
      continue;
    }
    const std::string field = StrCat("int8.bottom[", i, "]");
    Where where = graph.Locate(node, field);
    where.field = field;
    where.blob = graph.values[static_cast<size_t>(v)].name;
    problems->push_back({ErrorCode::kInvalidArgument, std::move(where),
                         made == nullptr ? "the layer that makes this blob says no range of it"
                                         : "the layer that makes this blob says another range"});
  }
}

// Checks ranges here because no later step reports a broken one: the layers would stay in f32.
void CheckRanges(const Graph& graph, const Node& node, std::vector<Problem>* problems) {
  const Int8Ranges& ranges = node.layer->param().int8();
  const auto check = [&](const auto& all, const std::string& which) {
    for (int i = 0; i < all.size(); ++i) {
      if (!all[i].has_max() || (std::isfinite(all[i].max()) && all[i].max() > 0)) continue;
      const std::string field = StrCat("int8.", which, "[", i, "].max");
      Where where = graph.Locate(node, field);
      where.field = field;
      problems->push_back({ErrorCode::kInvalidArgument, std::move(where),
                           StrCat("the largest magnitude of a range must be finite and above 0, ",
                                  "not ", all[i].max())});
    }
  };
  check(ranges.bottom(), "bottom");
  check(ranges.top(), "top");
}

}  // namespace

Precision PrecisionOf(const Layer& layer, const PlanOptions& options) {
  return layer.param().has_precision() ? layer.param().precision() : options.precision;
}

Support StoresBFloat16(const OpDesc& query) {
  if (query.precision != BF16) return Support::No("is for precision: BF16");
  if (!HasBFloat16()) return Support::No("needs a processor with AVX512-BF16");
  return {};
}

Support ComputesInt8(const OpDesc& query, size_t bottoms, size_t tops) {
  if (query.precision != INT8) return Support::No("is for precision: INT8");
  if (query.backward) return Support::No("is for forward passes without backward");
  if (query.context.dtype != DType::kF32) return Support::No("is for f32");
  if (!HasRanges(query.layer.param().int8(), bottoms, tops)) {
    return Support::No("is for layers with ranges of calibration (int8)");
  }
  return {};
}

const Int8Range* Int8RangeOf(const Graph& graph, int value) {
  while (true) {
    const Value& v = graph.values[static_cast<size_t>(value)];
    const Node& node = graph.nodes[static_cast<size_t>(v.producer)];
    const Int8Ranges& ranges = node.layer->param().int8();
    if (v.output < ranges.top_size()) {
      const Int8Range& range = ranges.top(v.output);
      return range.max() > 0 ? &range : nullptr;
    }
    if (node.type->name != "Split") return nullptr;
    value = node.inputs[0];
  }
}

void CheckPrecisions(const Graph& graph, const NetParameter& net, const PlanOptions& options,
                     std::vector<Problem>* warnings) {
  WarnOfTf32(graph, net, options, warnings);
  std::vector<Problem> problems;
  const std::string of_net = WhyNot(options.precision, options);
  if (!of_net.empty()) {
    problems.push_back(
        Refused(of_net, net.has_precision() ? graph.source.Locate("precision") : Where{}));
  }
  bool asks = false, has_ranges = false;
  for (const Node& node : graph.nodes) {
    const LayerParameter& param = node.layer->param();
    const std::string why = param.has_precision() ? WhyNot(param.precision(), options) : "";
    if (!why.empty()) problems.push_back(Refused(why, graph.Locate(node, "precision")));
    CheckRanges(graph, node, &problems);
    CheckReaders(graph, node, &problems);
    asks = asks || AsksForInt8(node, options);
    has_ranges = has_ranges || param.has_int8();
  }
  if (problems.empty() && asks && !has_ranges) {
    problems.push_back(Refused(
        "precision INT8 needs the ranges of blobs (`int8` of the layers), which calibration finds",
        net.has_precision() ? graph.source.Locate("precision") : Where{}));
  }
  if (!problems.empty()) throw Error(std::move(problems));
}

bool UsesBFloat16(const Plan& plan) {
  return std::ranges::any_of(plan.layers, [&](const PlannedLayer& layer) {
    return layer.implementation != nullptr && layer.type->name != "Reorder" &&
           IsBFloat16(layer.implementation->name);
  });
}

void WarnOfUnusedBFloat16(const Graph& graph, const NetParameter& net, const Plan& plan,
                          std::vector<Problem>* warnings) {
  if (plan.options.device.type != DeviceType::kCpu || UsesBFloat16(plan)) return;
  const auto first = std::ranges::find_if(plan.layers, [&](const PlannedLayer& layer) {
    return layer.implementation != nullptr && layer.type->traits.multiplies_matrices &&
           PrecisionOf(*layer.layer, plan.options) == BF16;
  });
  if (first == plan.layers.end()) return;
  Where where = net.has_precision() ? graph.source.Locate("precision") : Where{};
  where.field = "precision";
  std::string message =
      "precision BF16 changes nothing: no layer computes in bfloat16 on this processor";
  for (const SkippedImplementation& skipped : first->skipped) {
    if (!IsBFloat16(skipped.implementation)) continue;
    message += StrCat(" (", first->name(), ": ", skipped.implementation, " ", skipped.reason, ")");
    break;
  }
  warnings->push_back({ErrorCode::kInvalidArgument, std::move(where), std::move(message)});
}

void InheritPrecisions(const std::map<std::string, std::string>& pinned, Graph* graph) {
  for (Node& node : graph->nodes) {
    const LayerParameter& own = node.layer->param();
    if (own.type() != "ReLU" || own.has_precision() || own.relu_param().negative_slope() < 0) {
      continue;
    }
    const Value& input = graph->values[static_cast<size_t>(node.inputs[0])];
    const Node& before = graph->nodes[static_cast<size_t>(input.producer)];
    const bool fuses = std::ranges::count(before.type->param_fields, "fused_relu_param") > 0;
    if (!fuses || !before.layer->param().has_precision() || before.outputs.size() != 1) continue;
    if (input.readers.size() != 1 || input.loss_weight != 0) continue;
    if (pinned.contains(node.name()) || pinned.contains(before.name())) continue;
    LayerParameter param = own;
    param.set_precision(before.layer->param().precision());
    node.layer = node.type->make(param);
  }
}

}  // namespace crema
