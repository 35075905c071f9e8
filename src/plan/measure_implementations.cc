#include "plan/measure_implementations.h"

#include <google/protobuf/text_format.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "core/strings.h"
#include "crema.pb.h"
#include "graph/gradient_flow.h"
#include "graph/infer.h"
#include "plan/implementation_timer.h"
#include "plan/layer_query.h"

namespace crema {
namespace {

// Implementations with an estimate slower than the best by a larger factor are not measured.
constexpr double kHopeless = 10;
// Assumed products per second and thread of implementations without an estimate, native ones
// included.
constexpr double kSlowProducts = 3e9;

using Implementations = std::vector<const Implementation*>;

bool IsPlain(const Implementation& implementation) {
  return implementation.input_format == MemoryFormat{} &&
         implementation.output_format == MemoryFormat{};
}

// Returns the implementations to choose from: a native one only if no other takes plain blobs.
Implementations CandidatesOf(const LayerType& type, const OpDesc& query,
                             const PlanOptions& options) {
  Implementations implementations;
  double best = std::numeric_limits<double>::infinity();
  for (const ImplementationPtr& implementation : type.implementations) {
    if (!MayUse(*implementation, query.layer, options) ||
        (!IsPlain(*implementation) && !options.passes.memory_formats))
      continue;
    if (!implementation->Supports(query).yes) continue;
    const bool plain =
        std::ranges::any_of(implementations, [](const Implementation* r) { return IsPlain(*r); });
    if (implementation->name == kNativeImplementation && plain) continue;
    implementations.push_back(implementation.get());
    const auto products = static_cast<double>(query.info.macs);
    best = std::min(best, implementation->Seconds(query).value_or(products / kSlowProducts));
  }
  std::erase_if(implementations, [&](const Implementation* implementation) {
    return !IsPlain(*implementation) &&
           implementation->Seconds(query).value_or(0) > kHopeless * best;
  });
  return implementations;
}

// Equal layers, measured once.
struct Job {
  std::vector<const Layer*> layers;
  std::vector<BlobSpec> inputs;
  InferContext context;
  const LayerInfo* info = nullptr;
  Implementations implementations;
  bool backward = false;
  bool to_input = false;
  double size = 0;  // of one layer: multiply-adds, or elements if it has none
  double total() const { return size * static_cast<double>(layers.size()); }
};

double SizeOf(const LayerInfo& info, const std::vector<BlobSpec>& inputs) {
  double size = static_cast<double>(info.macs);
  for (const BlobSpec& spec : inputs) size += static_cast<double>(spec.shape.count());
  return size;
}

class Measurer {
 public:
  Measurer(const Graph& graph, const PlanOptions& options)
      : graph_(graph),
        options_(options),
        infos_(InferShapes(graph,
                           {.dtype = options.dtype, .rank = options.rank, .world = options.world})),
        flow_(options.backward ? ComputeGradientFlow(graph, infos_) : NoGradients(graph)) {}

  ImplementationTimes Run() {
    for (size_t n = 0; n < graph_.nodes.size(); ++n) AddNode(n);
    std::vector<const std::pair<const std::string, Job>*> order;
    for (const auto& job : jobs_) order.push_back(&job);
    std::ranges::stable_sort(
        order, [](const auto* a, const auto* b) { return a->second.total() > b->second.total(); });
    ImplementationTimes times;
    for (const auto* job : order) Ask(job->first, job->second, &times);
    options_.implementation_timer->Save();
    return times;
  }

 private:
  void AddNode(size_t n) {
    const Node& node = graph_.nodes[n];
    const LayerInfo& info = infos_[n];
    if (node.inputs.empty() || info.view || info.share || info.dynamic_outputs) return;
    Job job;
    for (int v : node.inputs) job.inputs.push_back(SpecOf(v));
    job.context = ContextOf(*node.layer, job.inputs, node.outputs.size(), options_);
    job.info = &info;
    job.layers = {node.layer.get()};
    const GradientFlow::OfNode& flow = flow_.nodes[n];
    job.backward = flow.backward;
    job.to_input = flow.backward && std::ranges::find(flow.to_input, true) != flow.to_input.end();
    job.size = SizeOf(info, job.inputs);
    const OpDesc query = QueryOf(job);
    job.implementations = CandidatesOf(*node.type, query, options_);
    if (job.implementations.size() < 2) return;
    const auto [place, is_new] = jobs_.try_emplace(DescribeForTiming(query), std::move(job));
    if (!is_new) return place->second.layers.push_back(node.layer.get());
    place->second.context.inputs = place->second.inputs;
  }

  BlobSpec SpecOf(int v) const {
    const Value& value = graph_.values[static_cast<size_t>(v)];
    return infos_[static_cast<size_t>(value.producer)].outputs[static_cast<size_t>(value.output)];
  }

  OpDesc QueryOf(const Job& job) const {
    OpDesc query = crema::QueryOf(*job.layers[0], job.context, *job.info, options_);
    query.backward = job.backward;
    query.to_input = job.to_input;
    return query;
  }

  void Ask(const std::string& text, const Job& job, ImplementationTimes* times) const {
    const std::vector<double> seconds =
        options_.implementation_timer->Measure(text, QueryOf(job), job.implementations);
    if (seconds.empty()) return;
    CREMA_CHECK(seconds.size() == job.implementations.size());
    for (const Layer* layer : job.layers) {
      for (size_t r = 0; r < job.implementations.size(); ++r)
        times->Set(*layer, *job.implementations[r], seconds[r]);
    }
  }

  const Graph& graph_;
  const PlanOptions& options_;
  std::vector<LayerInfo> infos_;
  GradientFlow flow_;
  std::map<std::string, Job> jobs_;  // keyed by everything that their time depends on
};

void ClearFillers(google::protobuf::Message* message) {
  const google::protobuf::Reflection& reflection = *message->GetReflection();
  std::vector<const google::protobuf::FieldDescriptor*> fields;
  reflection.ListFields(*message, &fields);
  for (const auto* field : fields) {
    if (field->message_type() == nullptr || field->is_repeated()) continue;
    if (field->message_type() == FillerParameter::descriptor()) {
      reflection.ClearField(message, field);
    } else {
      ClearFillers(reflection.MutableMessage(message, field));
    }
  }
}

std::string TextOf(LayerParameter param) {
  param.clear_name();
  param.clear_bottom();
  param.clear_top();
  param.clear_include();
  param.clear_exclude();
  param.clear_param();
  param.clear_blobs();
  param.clear_loss_weight();
  param.clear_propagate_down();
  param.clear_recompute();
  ClearFillers(&param);
  google::protobuf::TextFormat::Printer printer;
  printer.SetSingleLineMode(true);
  std::string text;
  printer.PrintToString(param, &text);
  return text;
}

}  // namespace

std::optional<double> ImplementationTimes::SecondsOf(const Layer& layer,
                                                     const Implementation& implementation) const {
  const auto implementations = layers_.find(&layer);
  if (implementations == layers_.end()) return std::nullopt;
  const auto seconds = implementations->second.find(&implementation);
  if (seconds == implementations->second.end()) return std::nullopt;
  return seconds->second;
}

ImplementationTimes MeasureImplementations(const Graph& graph, const PlanOptions& options) {
  const bool wanted = options.implementation_timer != nullptr && !options.deterministic &&
                      options.optimize && options.device.type == DeviceType::kCpu;
  if (!wanted) return {};
  return Measurer(graph, options).Run();
}

std::string DescribeForTiming(const OpDesc& query) {
  std::string text = TextOf(query.layer.param());
  text += "of";
  for (const BlobSpec& spec : query.context.inputs) {
    text += StrCat(" ", ToString(spec.shape), " ", ToString(spec.dtype));
  }
  return StrCat(text,
                query.to_input   ? ", backward to input"
                : query.backward ? ", backward"
                                 : "",
                ", ", query.threads, query.threads == 1 ? " thread" : " threads",
                query.precision == FP32 ? "" : ", " + Precision_Name(query.precision));
}

}  // namespace crema
