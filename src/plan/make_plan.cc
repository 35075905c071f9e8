// NetParameter -> Plan: runs all passes and decisions in order.
#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "core/rng.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "graph/gradient_flow.h"
#include "graph/infer.h"
#include "graph/passes/passes.h"
#include "math/current_device.h"
#include "plan/host_implementation.h"
#include "plan/layer_query.h"
#include "plan/measure_implementations.h"
#include "plan/memory/concat_in_place.h"
#include "plan/memory/liveness.h"
#include "plan/memory/memory_budget.h"
#include "plan/memory/recompute.h"
#include "plan/parameter_slots.h"
#include "plan/passes/fuse.h"
#include "plan/passes/memory_formats.h"
#include "plan/passes/upload_bytes.h"
#include "plan/plan.h"
#include "plan/plan_passes.h"
#include "plan/precision.h"

namespace crema {
namespace {

// Returns the net as written to a caffemodel: the net of the user, without blobs.
NetParameter WrittenNet(const Graph& graph) {
  NetParameter net = ToNetParameter(graph);
  for (LayerParameter& layer : *net.mutable_layer()) layer.clear_blobs();
  net.clear_force_backward();
  return net;
}

// Throws kInvalidArgument for pinned layers that the net lacks in every phase, and for
// implementations that their types lack on this device.
void CheckPins(const NetParameter& net, const Registry& registry, const PlanOptions& options) {
  for (const auto& [name, implementation] : options.pinned) {
    const auto layer = std::ranges::find(net.layer(), name, &LayerParameter::name);
    if (layer == net.layer().end()) {
      std::vector<std::string> layers;
      for (const LayerParameter& other : net.layer()) layers.push_back(other.name());
      Fail(ErrorCode::kInvalidArgument,
           StrCat("implementation '", implementation, "': the net has no layer '", name, "'",
                  DidYouMean(name, layers)));
    }
    std::vector<std::string> names;
    for (const ImplementationPtr& candidate : registry.Find(layer->type())->implementations) {
      if (candidate->device == options.device.type) names.push_back(candidate->name);
    }
    if (std::ranges::find(names, implementation) != names.end()) continue;
    Fail(ErrorCode::kInvalidArgument,
         StrCat("layers of type ", layer->type(), " have no implementation '", implementation,
                "' on ", ToString(options.device), "; they have: ", Join(names, "; ")),
         {.layer = name});
  }
}

class Planner {
 public:
  Planner(const Graph& graph, const ImplementationTimes& times,
          const UploadDecisions& upload_decisions, const PlanOptions& options, const Plan* before,
          Plan* plan)
      : graph_(graph),
        times_(times),
        upload_decisions_(upload_decisions),
        options_(options),
        before_(before),
        plan_(*plan) {}

  void Run() {
    InferredBefore inferred;
    if (before_ != nullptr) {
      for (const PlannedLayer& layer : before_->layers) inferred.infos.push_back(layer.info);
    }
    infos_ = InferShapes(graph_, {.dtype = options_.dtype,
                                  .rank = options_.rank,
                                  .world = options_.world,
                                  .before = before_ != nullptr ? &inferred : nullptr});
    kept_ = std::move(inferred.kept);
    flow_ = options_.backward ? ComputeGradientFlow(graph_, infos_) : NoGradients(graph_);
    for (GradientFlow::OfNode& node : flow_.nodes) {
      node.to_parameters.resize(
          infos_[static_cast<size_t>(&node - flow_.nodes.data())].parameters.size());
    }
    plan_.parameters = AssignParameterSlots(graph_, infos_, flow_);
    AddValues();
    AddLayers();
    MarkRecompute(graph_, &plan_);
  }

 private:
  void AddValues() {
    std::vector<BlobSpec> specs(graph_.values.size());
    for (size_t n = 0; n < graph_.nodes.size(); ++n) {
      const std::vector<int>& outputs = graph_.nodes[n].outputs;
      for (size_t o = 0; o < outputs.size(); ++o) {
        specs[static_cast<size_t>(outputs[o])] = infos_[n].outputs[o];
      }
    }
    for (size_t v = 0; v < graph_.values.size(); ++v) {
      const Value& value = graph_.values[v];
      specs[v].format = value.format;
      plan_.values.push_back({.name = value.name,
                              .spec = specs[v],
                              .loss_weight = value.loss_weight,
                              .producer = value.producer,
                              .data = {},
                              .again = {},
                              .gradient = {},
                              .gradient_written = false,
                              .is_output = value.readers.empty()});
    }
    plan_.outputs = OutputsOfNet();
  }

  // Returns true for the first output of a Split that only carries a loss weight, reordered or not.
  bool IsOnlyWeighted(const Value& value) const {
    const Node& producer = graph_.nodes[static_cast<size_t>(value.producer)];
    if (!producer.source_path.empty()) return false;  // the user's own
    if (producer.type->name == "Split") return true;
    return producer.type->name == "Reorder" &&
           IsOnlyWeighted(graph_.values[static_cast<size_t>(producer.inputs[0])]);
  }

  std::vector<int> OutputsOfNet() const {
    std::vector<int> outputs;
    for (int v : graph_.Outputs()) {
      if (!IsOnlyWeighted(graph_.values[static_cast<size_t>(v)])) outputs.push_back(v);
    }
    return outputs;
  }

  // Names may repeat if nothing is learned, but random streams may not. Stream names do not depend
  // on layers that passes insert.
  static std::string StreamName(const Node& node, std::set<std::string>* names) {
    if (node.source_path.empty()) return StrCat(node.name(), "@");
    const bool unique = !node.name().empty() && names->insert(node.name()).second;
    return unique ? node.name() : StrCat(node.name(), "#", node.source_path);
  }

  void AddLayers() {
    size_t slot = 0;
    std::set<std::string> names;
    for (size_t n = 0; n < graph_.nodes.size(); ++n) {
      const Node& node = graph_.nodes[n];
      PlannedLayer layer;
      layer.layer = node.layer;
      layer.type = node.type;
      layer.info = infos_[n];
      // External buffers cannot be set by the user and are in host memory.
      if (!options_.optimize || options_.device.type != DeviceType::kCpu) {
        layer.info.external_output.clear();
      }
      layer.inputs = node.inputs;
      layer.outputs = node.outputs;
      layer.backward = flow_.nodes[n].backward;
      layer.to_input = flow_.nodes[n].to_input;
      layer.to_parameters = flow_.nodes[n].to_parameters;
      layer.layer_id = HashName(StreamName(node, &names));
      // Slots have the order of the layers.
      for (; slot < plan_.parameters.size() && plan_.parameters[slot].layer == static_cast<int>(n);
           ++slot) {
        layer.parameters.push_back(static_cast<int>(slot));
      }
      const auto numbers = upload_decisions_.find(node.layer.get());
      if (numbers != upload_decisions_.end()) layer.skipped.push_back({"bytes", numbers->second});
      if (before_ != nullptr && kept_[n]) {
        const PlannedLayer& old = before_->layers[n];
        layer.fits = false;
        layer.implementation = old.implementation;
        layer.skipped = old.skipped;
        layer.needs = old.needs;
      } else {
        ChooseImplementation(node, &layer);
      }
      plan_.layers.push_back(std::move(layer));
    }
  }

  void ChooseImplementation(const Node& node, PlannedLayer* layer) {
    std::vector<BlobSpec> inputs;
    for (int v : node.inputs) inputs.push_back(plan_.values[static_cast<size_t>(v)].spec);
    const InferContext context = ContextOf(*node.layer, inputs, node.outputs.size(), options_);
    std::vector<BlobSpec> outputs;
    for (int v : node.outputs) outputs.push_back(plan_.values[static_cast<size_t>(v)].spec);
    const OpDesc query = QueryOf(*layer, context, layer->info, 0, options_);
    for (const ImplementationPtr& candidate : node.type->implementations) {
      if (!MayUse(*candidate, *node.layer, options_)) continue;
      Support support = candidate->Supports(query);
      if (support.yes && !FitsFormats(*candidate, layer->info, inputs, outputs)) {
        support = Support::No("is for another layout or stored type");
      }
      if (support.yes) support = TakeIfFaster(*candidate, layer);
      if (support.yes && !layer->tuned) break;
      if (!support.yes) layer->skipped.push_back({candidate->name, support.reason});
    }
    const bool runs = !layer->info.view && !layer->info.share;
    // Sources run on the host, which has no access to parameters of the device.
    const bool source = node.inputs.empty() && layer->info.parameters.empty();
    if (layer->implementation == nullptr && runs && !source) {
      if (IsPinned(*node.layer, options_)) FailPinned(node, *layer);
      if (!MayRunOnHost()) FailWithoutImplementation(node, *layer);
      layer->implementation = &HostImplementation();
    }
    if (layer->implementation == nullptr) return;
    BookNeeds(query, layer);
  }

  // Takes the first candidate, or the fastest if several were measured.
  Support TakeIfFaster(const Implementation& candidate, PlannedLayer* layer) const {
    const std::optional<double> seconds = times_.SecondsOf(*layer->layer, candidate);
    if (!layer->tuned) {
      layer->implementation = &candidate;
      layer->tuned = seconds.has_value();
      return {};
    }
    if (!seconds) return Support::No("was not measured");
    const double best = *times_.SecondsOf(*layer->layer, *layer->implementation);
    const auto slower = [](double a, double b) {
      return Support::No(StrCat("takes ", a / b, " times as long"));
    };
    if (*seconds >= best) return slower(*seconds, best);
    layer->skipped.push_back({layer->implementation->name, slower(best, *seconds).reason});
    layer->implementation = &candidate;
    return {};
  }

  bool MayRunOnHost() const {
    return options_.allow_cpu_layers && options_.device.type != DeviceType::kCpu &&
           options_.dtype == DType::kF32;
  }

  [[noreturn]] void FailPinned(const Node& node, const PlannedLayer& layer) {
    CREMA_CHECK(!layer.skipped.empty());
    Fail(ErrorCode::kUnsupported,
         StrCat("the implementation '", layer.skipped.front().implementation,
                "' that is asked for cannot compute this layer: ", layer.skipped.front().reason),
         graph_.Locate(node, "type"));
  }

  [[noreturn]] void FailWithoutImplementation(const Node& node, const PlannedLayer& layer) {
    std::string reasons;
    for (const SkippedImplementation& skipped : layer.skipped) {
      reasons += StrCat("; ", skipped.implementation, ": ", skipped.reason);
    }
    Fail(ErrorCode::kUnsupported,
         StrCat("a layer of type ", node.type->name, " has no implementation for ",
                ToString(options_.device), reasons,
                options_.device.type == DeviceType::kCpu || options_.allow_cpu_layers
                    ? ""
                    : "; --allow_cpu_layers lets the CPU compute such layers, on copies"),
         graph_.Locate(node, "type"));
  }

  const Graph& graph_;
  const ImplementationTimes& times_;
  const UploadDecisions& upload_decisions_;
  const PlanOptions& options_;
  const Plan* before_;
  std::vector<bool> kept_;  // by node; empty without a plan before
  Plan& plan_;
  std::vector<LayerInfo> infos_;
  GradientFlow flow_;
};

// Sets scratch and state bytes of the plan from those of its layers.
void SumNeeds(Plan* plan) {
  size_t scratch = 0, state = 0;
  for (const PlannedLayer& layer : plan->layers) {
    scratch = std::max({scratch, layer.needs.forward_scratch, layer.needs.backward_scratch});
    state += layer.needs.state_bytes;
  }
  plan->scratch_bytes = static_cast<int64_t>(scratch);
  plan->state_bytes = static_cast<int64_t>(state);
}

}  // namespace

std::shared_ptr<const Plan> MakePlan(const NetParameter& net, const SourceMap& source,
                                     const NetState& state, const Registry& registry,
                                     const PlanOptions& asked, std::vector<Problem>* warnings,
                                     const Plan* before) {
  CREMA_CHECK(before == nullptr || !asked.optimize);
  PlanOptions options = asked;
  if (!options.optimize) {
    options.passes = ParsePasses("none");
    options.passes.optimized_implementations = asked.passes.optimized_implementations;
  }
  if (net.has_precision()) options.precision = net.precision();
  SetCurrentDevice(options.device);  // implementations ask libraries what they can do there
  Graph graph = BuildGraph(net, source, state, registry, warnings);
  auto plan = std::make_shared<Plan>();
  plan->name = graph.name;
  plan->state = state;
  plan->options = options;
  plan->written = WrittenNet(graph);
  CheckPrecisions(graph, net, options, warnings);
  CheckPins(net, registry, options);
  UploadDecisions upload_decisions;
  if (options.passes.upload_bytes && options.device.type != DeviceType::kCpu) {
    upload_decisions = UploadBytes(&graph, registry);
  }
  if (options.passes.fuse) InheritPrecisions(options.pinned, &graph);
  if (options.passes.move_strides && !options.backward) {
    MoveStrides(&graph, registry,
                {.dtype = options.dtype, .rank = options.rank, .world = options.world});
  }
  InsertSplits(&graph, registry);
  const ImplementationTimes times = MeasureImplementations(graph, options);
  if (options.passes.memory_formats) ChooseMemoryFormats(&graph, registry, times, options);
  Planner(graph, times, upload_decisions, options, before, plan.get()).Run();
  FuseFollowers(plan.get());
  MarkConcatsInPlace(plan.get());
  SumNeeds(plan.get());
  FitMemoryBudget(net.memory_budget(), source, plan.get());
  PlaceMemory(plan.get());
  WarnOfUnusedBFloat16(graph, net, *plan, warnings);
  return plan;
}

}  // namespace crema
