#include "onnx/export.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "core/error.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "graph/detections.h"
#include "graph/graph.h"
#include "graph/infer.h"
#include "inference/deploy_net.h"
#include "inference/model_parts.h"
#include "onnx/export_int8.h"
#include "onnx/export_layer.h"
#include "onnx/export_preprocessing.h"

namespace crema {
namespace {

using onnx::TensorProto;

// Weights of a model by layer and index, and their names.
class WeightNames {
 public:
  explicit WeightNames(const Model& model) : model_(model) {
    const Plan& plan = *model.parts().plan;
    for (size_t s = 0; s < plan.parameters.size(); ++s) {
      slots_[{LayerOf(s), plan.parameters[s].index}] = s;
    }
  }

  void Fill(const std::string& layer, size_t count, LayerExport* e) const {
    for (size_t i = 0; i < count; ++i) {
      const size_t slot = slots_.at({layer, static_cast<int>(i)});
      const ParameterSlot& own = model_.parts().plan->parameters[slot];
      const auto owner = static_cast<size_t>(own.owner);
      const ConstTensorView value = std::as_const(*model_.weights()).blob(slot);
      if (value.dtype() != DType::kF32) e->Refuse("its parameters are not of single precision");
      e->parameters.emplace_back(value.raw(), own.shape, value.dtype());
      std::string role = model_.parts().plan->parameters[owner].role;
      std::ranges::replace(role, ' ', '_');
      e->parameter_keys.push_back(StrCat(LayerOf(owner), "/", role));
    }
  }

 private:
  const std::string& LayerOf(size_t slot) const {
    const Plan& plan = *model_.parts().plan;
    return plan.layers[static_cast<size_t>(plan.parameters[slot].layer)].name();
  }

  const Model& model_;
  std::map<std::pair<std::string, int>, size_t> slots_;
};

// One attempt to write the net for given shapes of its inputs.
class NetExport {
 public:
  NetExport(const Model& model, const NetParameter& net, const OnnxExportOptions& options,
            bool open)
      : model_(model),
        options_(options),
        net_(net),
        open_inputs_(open),
        onnx_(options.opset),
        weights_(model) {
    std::vector<Problem> ignored;
    const Model::Parts& parts = model.parts();
    graph_ = BuildGraph(net, {}, parts.state, *parts.registry, &ignored);
    infos_ = InferShapes(graph_, {});
    names_.resize(graph_.values.size());
    open_.resize(graph_.values.size());
    dynamic_.resize(graph_.values.size());
  }

  // Throws Error with all layers that cannot be written.
  void Run() {
    NameValues();
    std::vector<Problem> problems;
    for (size_t n = 0; n < graph_.nodes.size(); ++n) {
      try {
        if (graph_.nodes[n].type->name == "Input") {
          AddInput(n);
        } else {
          AddLayer(n);
        }
      } catch (const Error& error) {
        problems.insert(problems.end(), error.problems().begin(), error.problems().end());
      }
    }
    if (!problems.empty()) throw Error(std::move(problems));
    if (onnx_.nodes().empty()) {
      Fail(ErrorCode::kUnsupported, "the net cannot be written as ONNX: it computes nothing");
    }
  }

  OnnxExport Take();

  const OnnxGraphWriter& onnx() const { return onnx_; }

 private:
  const std::string& ValueName(int v) const { return names_[static_cast<size_t>(v)]; }
  const Node& ProducerOf(int v) const {
    return graph_.nodes[static_cast<size_t>(graph_.values[static_cast<size_t>(v)].producer)];
  }
  const BlobSpec& SpecOf(int v) const {
    const Value& value = graph_.values[static_cast<size_t>(v)];
    return infos_[static_cast<size_t>(value.producer)].outputs[static_cast<size_t>(value.output)];
  }

  void NameValues();
  void AddInput(size_t n);
  void AddLayer(size_t n);
  void SetOpenness(size_t n, const LayerExport& e);
  void Describe(int v, onnx::ValueInfoProto* info) const;

  const Model& model_;
  const OnnxExportOptions& options_;
  const NetParameter& net_;
  const bool open_inputs_;
  OnnxGraphWriter onnx_;
  const WeightNames weights_;
  Graph graph_;
  std::vector<LayerInfo> infos_;  // by node
  // By value: its name in the graph, unless it was renamed; axis 0 may differ from its shape; some
  // size is known only when the net runs.
  std::vector<std::string> names_;
  std::vector<bool> open_, dynamic_;
  std::vector<int> inputs_;
};

// A blob keeps its name as an input, otherwise after its last layer.
void NetExport::NameValues() {
  std::map<std::string, int> keeps;
  for (size_t v = 0; v < graph_.values.size(); ++v) {
    const auto [found, is_new] = keeps.emplace(graph_.values[v].name, static_cast<int>(v));
    if (!is_new && ProducerOf(found->second).type->name != "Input") {
      found->second = static_cast<int>(v);
    }
  }
  std::set<std::string> used;
  for (const auto& [name, v] : keeps) used.insert(name);
  for (size_t v = 0; v < graph_.values.size(); ++v) {
    const std::string& blob = graph_.values[v].name;
    std::string name = blob;
    if (keeps[blob] != static_cast<int>(v)) {
      name = StrCat(blob, "/", ProducerOf(static_cast<int>(v)).name());
      while (!used.insert(name).second) name += "_";
    }
    names_[v] = name;
  }
  for (const std::string& name : names_) onnx_.Keep(name);
}

void NetExport::AddInput(size_t n) {
  const Node& node = graph_.nodes[n];
  for (const int v : node.outputs) {
    inputs_.push_back(v);
    open_[static_cast<size_t>(v)] = open_inputs_;
    onnx_.Reserve(ValueName(v));
    if (!options_.preprocessing) continue;
    onnx_.Begin(ValueName(v));
    names_[static_cast<size_t>(v)] = ExportPreprocessing(
        &onnx_, ValueName(v), SpecOf(v).shape, model_.card().preprocessing, inputs_.size() == 1);
  }
}

void NetExport::SetOpenness(size_t n, const LayerExport& e) {
  const Node& node = graph_.nodes[n];
  const LayerInfo& info = infos_[n];
  const std::string& type = node.type->name;
  const std::set<std::string> fold = {"Reduction", "Filter", "Silence", "BatchReindex", "Gather"};
  const bool regions = type == "ROIPooling" || type == "ROIAlign" || type == "PSROIPooling";
  bool open = e.is_open() && !info.constant;
  if (regions) open = e.open[1];
  if (type == "BatchReindex") open = e.open[1];
  if (open && !regions && info.reach == Reach::kAll && !fold.contains(type)) {
    e.Refuse("the number of items of its bottom is known only when the net runs");
  }
  bool dynamic = info.dynamic_outputs;
  for (const int v : node.inputs) dynamic = dynamic || dynamic_[static_cast<size_t>(v)];
  for (const int v : node.outputs) {
    const bool rows = info.dynamic_outputs && !MakesDetections(type);
    open_[static_cast<size_t>(v)] = (open || rows) && SpecOf(v).shape.axes() > 0;
    dynamic_[static_cast<size_t>(v)] = dynamic && !info.constant;
  }
}

void NetExport::AddLayer(size_t n) {
  const Node& node = graph_.nodes[n];
  LayerExport e(&onnx_, *node.layer, infos_[n]);
  const std::string& own = node.type->name;
  const std::string& type = node.type->alias_of.empty() ? own : node.type->alias_of;
  for (const int v : node.inputs) {
    e.in.push_back(ValueName(v));
    e.specs.push_back(SpecOf(v));
    e.open.push_back(open_[static_cast<size_t>(v)]);
  }
  SetOpenness(n, e);
  const auto emitter = Emitters().find(type);
  if (node.type->plugin != nullptr) e.Refuse("it comes from a plugin");
  if (emitter == Emitters().end()) e.Refuse("this version has no form for it");
  weights_.Fill(node.name(), infos_[n].parameters.size(), &e);
  onnx_.Begin(node.name());
  QuantizeInt8(net_, model_.parts().options.plan, &e);
  emitter->second(e);
  CREMA_CHECK(e.out.size() == node.outputs.size());
  for (size_t o = 0; o < e.out.size(); ++o) onnx_.Name(e.out[o], ValueName(node.outputs[o]));
  if (!e.out.empty()) onnx_.NameNode(ValueName(node.outputs[0]), node.name());
}

void NetExport::Describe(int v, onnx::ValueInfoProto* info) const {
  const BlobSpec& spec = SpecOf(v);
  const auto at = static_cast<size_t>(v);
  onnx::TypeProto::Tensor* type = info->mutable_type()->mutable_tensor_type();
  type->set_elem_type(spec.dtype == DType::kU8 ? TensorProto::UINT8 : TensorProto::FLOAT);
  onnx::TensorShapeProto* shape = type->mutable_shape();
  const bool detections = MakesDetections(ProducerOf(v).type->name);
  for (int a = 0; a < spec.shape.axes(); ++a) {
    onnx::TensorShapeProto::Dimension* dim = shape->add_dim();
    if (dynamic_[at] && a == (detections ? 2 : 0)) {
      dim->set_dim_param(StrCat(graph_.values[at].name, "_rows"));
    } else if (open_[at] && a == 0) {
      dim->set_dim_param("N");
    } else {
      dim->set_dim_value(spec.shape[a]);
    }
  }
}

OnnxExport NetExport::Take() {
  OnnxExport made;
  made.batches = open_inputs_;
  onnx::GraphProto* graph = made.model.mutable_graph();
  graph->set_name(net_.name().empty() ? "net" : net_.name());
  for (const onnx::NodeProto& node : onnx_.nodes()) *graph->add_node() = node;
  for (const int v : inputs_) {
    onnx::ValueInfoProto* info = graph->add_input();
    info->set_name(graph_.values[static_cast<size_t>(v)].name);
    Describe(v, info);
  }
  const std::vector<int> last = graph_.Outputs();
  const std::set<int> ends(last.begin(), last.end());
  for (size_t v = 0; v < graph_.values.size(); ++v) {
    const int at = static_cast<int>(v);
    if (ProducerOf(at).type->name == "Input") continue;  // also one that no layer reads
    const ExportedBlob blob{graph_.values[v].name, ValueName(at)};
    const bool is_output = ends.contains(at);
    onnx::ValueInfoProto* info = is_output ? graph->add_output() : graph->add_value_info();
    info->set_name(blob.value);
    Describe(at, info);
    if (is_output) made.outputs.push_back(blob);
    if (dynamic_[v]) continue;
    std::erase_if(made.blobs, [&](const ExportedBlob& other) { return other.blob == blob.blob; });
    made.blobs.push_back(blob);
  }
  made.constants = onnx_.constants();
  return made;
}

// Returns the name of the first node that differs; empty: none.
std::string Differing(const OnnxGraphWriter& a, const OnnxGraphWriter& b) {
  for (size_t n = 0; n < std::max(a.nodes().size(), b.nodes().size()); ++n) {
    if (n >= a.nodes().size()) return b.nodes()[n].name();
    if (n >= b.nodes().size() ||
        a.nodes()[n].SerializeAsString() != b.nodes()[n].SerializeAsString()) {
      return a.nodes()[n].name();
    }
  }
  for (size_t c = 0; c < a.constants().size(); ++c) {
    const OnnxConstant& own = a.constants()[c];
    const OnnxConstant& other = b.constants()[c];
    if (own.name != other.name || own.dims != other.dims || own.bytes != other.bytes) {
      return own.name;
    }
  }
  return "";
}

// Sets axis 0 of all inputs.
NetParameter WithBatch(const NetParameter& net, const NetState& state, int64_t batch) {
  NetParameter sized = net;
  const std::vector<InputBlob> inputs = FindInputs(sized, state);
  std::vector<Shape> shapes;
  for (const InputBlob& input : inputs) {
    const auto& given = net.layer(input.layer).input_param().shape();
    const BlobShape& shape = given.Get(given.size() == 1 ? 0 : input.top);
    std::vector<int64_t> dims(shape.dim().begin(), shape.dim().end());
    dims[0] = batch;
    shapes.emplace_back(std::span<const int64_t>(dims));
  }
  SetInputShapes(inputs, shapes, &sized);
  return sized;
}

int IrVersionOf(int opset) {
  constexpr int kVersions[] = {7, 7, 8, 8, 8, 8, 9, 9, 10, 10, 11};
  return kVersions[opset - kLeastOnnxOpset];
}

void SetVersions(int opset, onnx::ModelProto* model) {
  model->set_ir_version(IrVersionOf(opset));
  model->set_producer_name("crema");
  model->set_producer_version(CREMA_VERSION);
  onnx::OperatorSetIdProto* import = model->add_opset_import();
  import->set_domain("");
  import->set_version(opset);
}

bool RoundsToInt8(const onnx::GraphProto& graph) {
  return std::ranges::any_of(
      graph.node(), [](const onnx::NodeProto& node) { return node.op_type() == "QuantizeLinear"; });
}

}  // namespace

OnnxExport ToOnnx(const Model& model, const OnnxExportOptions& options) {
  if (options.opset < kLeastOnnxOpset || options.opset > kMostOnnxOpset) {
    Fail(ErrorCode::kInvalidArgument,
         StrCat("opset ", options.opset, " is not written; give one from ", kLeastOnnxOpset, " to ",
                kMostOnnxOpset));
  }
  const Model::Parts& parts = model.parts();
  const NetParameter net = DeployNet(parts.net, parts.state, *parts.registry);
  OnnxExport made;
  std::string fixed_by;
  if (model.Batches()) {
    // The graph serves any batch if it is the same for two of them.
    const NetParameter two = WithBatch(net, parts.state, 2), three = WithBatch(net, parts.state, 3);
    NetExport a(model, two, options, true), b(model, three, options, true);
    a.Run();
    b.Run();
    fixed_by = Differing(a.onnx(), b.onnx());
    if (fixed_by.empty()) made = a.Take();
  }
  if (!made.batches) {
    NetExport fixed(model, net, options, false);
    fixed.Run();
    made = fixed.Take();
    if (!fixed_by.empty()) {
      made.notes.push_back(
          StrCat("the batch is fixed, since the constants of '", fixed_by, "' depend on it"));
    }
  }
  made.preprocessing = options.preprocessing;
  // The blobs of an int8 net are rounded at other places, each by its plan.
  if (RoundsToInt8(made.model.graph())) made.blobs.clear();
  SetVersions(options.opset, &made.model);
  AddMetadata(model.card(), options.preprocessing, &made.model);
  if (options.half_weights) HalveWeights(&made);
  return made;
}

}  // namespace crema
