// Builds a Graph from a NetParameter: phase rules, layer types, names.
#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "core/strings.h"
#include "crema.pb.h"
#include "format/foreign_names.h"
#include "format/fork_layers.h"
#include "graph/graph.h"

namespace crema {
namespace {

using google::protobuf::FieldDescriptor;

class Builder {
 public:
  Builder(const NetParameter& net, const SourceMap& source, const NetState& state,
          const Registry& registry, std::vector<Problem>* warnings)
      : net_(net), registry_(registry), warnings_(warnings) {
    graph_.name = net.name();
    graph_.state = state;
    graph_.force_backward = net.force_backward();
    graph_.source = source;
  }

  Graph Build() {
    for (int i = 0; i < net_.layer_size(); ++i) AddLayer(i);
    if (!problems_.empty()) throw Error(std::move(problems_));
    if (graph_.nodes.empty()) {
      Fail(ErrorCode::kInvalidArgument,
           StrCat("the net has no layer for phase ", Phase_Name(graph_.state.phase()),
                  "; check its include and exclude rules"),
           graph_.source.Locate(""));
    }
    return std::move(graph_);
  }

 private:
  struct Produced {
    int value = -1;  // -1: its layer is broken, so later errors about it are suppressed
    std::string layer;
    std::string path;
  };

  void AddLayer(int index) {
    LayerParameter param = net_.layer(index);
    path_ = StrCat("layer[", index, "]");
    layer_name_ = param.name();
    try {
      if (!IsIncluded(param, graph_.state)) {
        for (const std::string& top : param.top()) excluded_.emplace(top, param.name());
        return;
      }
    } catch (const Error& error) {
      Keep(error);
      return;
    }
    WarnAboutPhase(param);
    if (!param.has_phase()) param.set_phase(graph_.state.phase());
    const LayerType* type = FindType(param);
    if (type != nullptr) AddAutomaticTop(*type, &param);
    std::vector<int> inputs = ResolveInputs(param);
    const bool inputs_known = std::ranges::find(inputs, -1) == inputs.end();
    const bool arity_fits = type != nullptr && CheckArity(param, *type);
    std::shared_ptr<const Layer> layer;
    if (arity_fits) {
      WarnAboutFieldsWithoutEffect(param, *type);
      WarnAboutUnreadFields(param, *type);
      layer = MakeLayer(param, *type);
    }
    const bool whole = layer != nullptr && inputs_known;
    Node node{layer, type, std::move(inputs), {}, path_};
    DeclareOutputs(param, whole, net_.layer(index).has_phase(), &node);
    if (whole) {
      for (int v : node.inputs) Readers(v).push_back(static_cast<int>(graph_.nodes.size()));
      graph_.nodes.push_back(std::move(node));
    }
  }

  std::vector<int>& Readers(int value) { return graph_.values[static_cast<size_t>(value)].readers; }

  // Records a problem of the current layer, with its position in the text.
  void Report(const std::string& field, std::string message,
              ErrorCode code = ErrorCode::kInvalidArgument) {
    Where where = graph_.source.Locate(field.empty() ? path_ : path_ + "." + field);
    where.layer = layer_name_;
    where.field = field;
    problems_.push_back({code, std::move(where), std::move(message)});
  }

  void Keep(const Error& error) {
    for (const Problem& problem : error.problems()) {
      Report(problem.where.field, problem.message, problem.code);
    }
  }

  // Caffe adds the missing tops of a loss layer. Here the loss has the name of its layer.
  void AddAutomaticTop(const LayerType& type, LayerParameter* param) {
    if (type.default_loss_weight == 0 || param->top_size() > 0) return;
    std::string top = param->name();
    while (top.empty() || produced_.contains(top)) top += "(automatic)";
    param->add_top(top);
  }

  const LayerType* FindType(const LayerParameter& param) {
    if (!param.has_type() || param.type().empty()) {
      Report("", "missing required field 'type'");
      return nullptr;
    }
    const LayerType* type = registry_.Find(param.type());
    const std::string of_fork = ForkLayerMessage(param.type());
    if (type == nullptr && !of_fork.empty() && net_.plugin_size() == 0) {
      Report("type", of_fork);
    } else if (type == nullptr) {
      const std::vector<std::string> names = registry_.Names();
      std::string hint = ForeignLayerHint(param.type());
      if (hint.empty()) hint = DidYouMean(param.type(), names);
      if (net_.plugin_size() > 0) {
        const std::vector<std::string> plugins(net_.plugin().begin(), net_.plugin().end());
        hint =
            StrCat("; the net names plugins, which are programs, so that this one is loaded only ",
                   "on request: --plugin=FILE, for ", Join(plugins, ", "));
      } else if (hint.empty()) {
        hint = "; known types: " + Join(names, " ");
      }
      Report("type", StrCat("unknown layer type '", param.type(), "'", hint));
    }
    return type;
  }

  std::vector<int> ResolveInputs(const LayerParameter& param) {
    std::vector<int> inputs;
    for (int b = 0; b < param.bottom_size(); ++b) {
      const auto found = produced_.find(param.bottom(b));
      if (found == produced_.end()) ReportMissingBlob(param.bottom(b), b);
      inputs.push_back(found == produced_.end() ? -1 : found->second.value);
    }
    return inputs;
  }

  void ReportMissingBlob(const std::string& blob, int bottom) {
    std::vector<std::string> names;
    for (const auto& [name, where] : produced_) names.push_back(name);
    std::string hint = DidYouMean(blob, names);
    if (const auto found = excluded_.find(blob); found != excluded_.end()) {
      const bool has_twin = std::ranges::any_of(
          graph_.nodes, [&](const Node& node) { return node.name() == found->second; });
      hint = StrCat("; layer \"", found->second,
                    has_twin ? "\" of another phase does, but not that of phase "
                             : "\" would, but its rules leave it out of phase ",
                    Phase_Name(graph_.state.phase()));
    } else if (const std::string later = ProducedLater(blob); !later.empty()) {
      hint = later == layer_name_ ? "; it is this layer's own top"
                                  : StrCat("; layer \"", later,
                                           "\" further down does, but layers run in the order in "
                                           "which they are written");
    }
    Report(StrCat("bottom[", bottom, "]"),
           StrCat("no layer before this one produces bottom '", blob, "'", hint));
  }

  // Returns the name of a layer that produces it, at any position; empty if none does.
  std::string ProducedLater(const std::string& blob) const {
    for (const LayerParameter& layer : net_.layer()) {
      if (std::ranges::find(layer.top(), blob) != layer.top().end()) return layer.name();
    }
    return "";
  }

  bool CheckArity(const LayerParameter& param, const LayerType& type) {
    const bool inputs = CheckCount("bottom", param.bottom_size(), type.inputs, type);
    const bool outputs = CheckCount("top", param.top_size(), type.outputs, type);
    if (inputs && outputs && type.outputs_equal_inputs && param.top_size() != param.bottom_size()) {
      Report("top", StrCat(type.name, " needs as many tops as bottoms: it has ",
                           param.bottom_size(), " bottoms and ", param.top_size(), " tops"));
      return false;
    }
    return inputs && outputs;
  }

  bool CheckCount(const char* field, int count, const Arity& arity, const LayerType& type) {
    if (count >= arity.min && count <= arity.max) return true;
    std::string wanted = std::to_string(arity.min);
    if (arity.max == Arity::kAny) {
      wanted += " or more";
    } else if (arity.max != arity.min) {
      wanted += StrCat(" to ", arity.max);
    }
    Report(count > 0 ? field : "",
           StrCat("wrong number of ", field, "s: ", type.name, " takes ", wanted, ", not ", count));
    return false;
  }

  void WarnAboutFieldsWithoutEffect(const LayerParameter& param, const LayerType& type) {
    std::vector<const FieldDescriptor*> fields;
    param.GetReflection()->ListFields(param, &fields);
    for (const FieldDescriptor* field : fields) {
      const bool is_param = field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE &&
                            field->name().ends_with("_param");
      if (!is_param ||
          std::ranges::find(type.param_fields, field->name()) != type.param_fields.end()) {
        continue;
      }
      Where where = graph_.source.Locate(path_ + "." + field->name());
      where.layer = layer_name_;
      std::string hint = type.param_fields.empty() ? " (it has no parameters)" : "";
      if (!type.param_fields.empty()) hint = " (it reads " + Join(type.param_fields, ", ") + ")";
      warnings_->push_back(
          {ErrorCode::kInvalidArgument, std::move(where),
           StrCat("'", field->name(), "' has no effect on a layer of type ", type.name, hint)});
    }
  }

  // The same for the fields of messages.
  void WarnAboutUnreadFields(const LayerParameter& param, const LayerType& type) {
    for (const std::string& path : type.unread_fields) {
      const size_t dot = path.find('.');
      const FieldDescriptor* outer = param.GetDescriptor()->FindFieldByName(path.substr(0, dot));
      CREMA_CHECK(outer != nullptr);
      if (!param.GetReflection()->HasField(param, outer)) continue;
      const google::protobuf::Message& message = param.GetReflection()->GetMessage(param, outer);
      const FieldDescriptor* inner = message.GetDescriptor()->FindFieldByName(path.substr(dot + 1));
      CREMA_CHECK(inner != nullptr);
      const bool is_set = inner->is_repeated()
                              ? message.GetReflection()->FieldSize(message, inner) > 0
                              : message.GetReflection()->HasField(message, inner);
      if (!is_set) continue;
      Where where = graph_.source.Locate(path_ + "." + path);
      where.layer = layer_name_;
      warnings_->push_back({ErrorCode::kInvalidArgument, std::move(where),
                            StrCat("'", path, "' has no effect on a layer of type ", type.name)});
    }
  }

  std::shared_ptr<const Layer> MakeLayer(const LayerParameter& param, const LayerType& type) {
    if (param.loss_weight_size() != 0 && param.loss_weight_size() != param.top_size()) {
      Report("loss_weight", StrCat("loss_weight has ", param.loss_weight_size(), " entries for ",
                                   param.top_size(), " tops; give none or one each"));
      return nullptr;
    }
    for (int w = 0; w < param.loss_weight_size(); ++w) {
      if (std::isfinite(param.loss_weight(w))) continue;
      Report(StrCat("loss_weight[", w, "]"),
             StrCat("loss_weight is ", std::isnan(param.loss_weight(w)) ? "nan" : "infinite",
                    ", not a finite number"));
      return nullptr;
    }
    if (param.propagate_down_size() != 0 && param.propagate_down_size() != param.bottom_size()) {
      Report("propagate_down",
             StrCat("propagate_down has ", param.propagate_down_size(), " entries for ",
                    param.bottom_size(), " bottoms; give none or one each"));
      return nullptr;
    }
    try {
      return type.make(param);
    } catch (const Error& error) {
      Keep(error);
      return nullptr;
    }
  }

  void DeclareOutputs(const LayerParameter& param, bool whole, bool has_phase, Node* node) {
    for (int t = 0; t < param.top_size(); ++t) {
      const std::string& name = param.top(t);
      const bool in_place = t < param.bottom_size() && param.bottom(t) == name;
      const auto found = produced_.find(name);
      if (found != produced_.end() && !in_place) {
        const Where first = graph_.source.Locate(found->second.path);
        Report(StrCat("top[", t, "]"),
               StrCat("blob '", name, "' is already produced by layer \"", found->second.layer,
                      "\" (line ", first.line, "); ",
                      has_phase ? RuleInsteadOf(param.phase()) : WayOut(param, found->second)));
        continue;
      }
      Produced produced{-1, param.name(), path_};
      if (whole) {
        produced.value = static_cast<int>(graph_.values.size());
        node->outputs.push_back(produced.value);
        graph_.values.push_back({name,
                                 static_cast<int>(graph_.nodes.size()),
                                 t,
                                 {},
                                 LossWeight(param, *node->type, t)});
      }
      produced_[name] = produced;
    }
  }

  // Returns what to do about a blob that two layers make. Data layers of one name are meant for two
  // phases.
  std::string WayOut(const LayerParameter& param, const Produced& other) const {
    if (param.bottom_size() > 0 || param.name() != other.layer) return "give this top another name";
    return StrCat("both are for phase ", Phase_Name(graph_.state.phase()),
                  ": write include { phase: ",
                  Phase_Name(graph_.state.phase() == TRAIN ? TEST : TRAIN), " } in one of them");
  }

  // Warns about layers that read data only: others, such as Dropout, may run as in the other phase.
  // Nets that Caffe wrote have the phase of the net in every layer.
  void WarnAboutPhase(const LayerParameter& param) {
    const bool mistaken = param.bottom_size() == 0 && param.has_phase() &&
                          param.phase() != graph_.state.phase() && param.include_size() == 0 &&
                          param.exclude_size() == 0 &&
                          !std::ranges::all_of(net_.layer(), [&](const LayerParameter& other) {
                            return other.has_phase() && other.phase() == param.phase();
                          });
    if (!mistaken) return;
    Where where = graph_.source.Locate(path_ + ".phase");
    where.layer = layer_name_;
    warnings_->push_back(
        {ErrorCode::kInvalidArgument, std::move(where), RuleInsteadOf(param.phase())});
  }

  static std::string RuleInsteadOf(Phase phase) {
    return StrCat("'phase' in a layer does not choose when it runs: write include { phase: ",
                  Phase_Name(phase), " }");
  }

  static float LossWeight(const LayerParameter& param, const LayerType& type, int top) {
    if (param.loss_weight_size() > 0) return param.loss_weight(top);
    return top == 0 ? static_cast<float>(type.default_loss_weight) : 0;
  }

  const NetParameter& net_;
  const Registry& registry_;
  std::vector<Problem>* warnings_;
  Graph graph_;
  std::vector<Problem> problems_;
  std::map<std::string, Produced> produced_;
  std::map<std::string, std::string> excluded_;  // blob -> excluded layer
  std::string path_;                             // of the current layer
  std::string layer_name_;                       // of the current layer
};

}  // namespace

Graph BuildGraph(const NetParameter& net, const SourceMap& source, const NetState& state,
                 const Registry& registry, std::vector<Problem>* warnings) {
  if (net.layer_size() > kMaxLayers) {
    Fail(ErrorCode::kInvalidArgument,
         StrCat("the net has ", net.layer_size(), " layers; the most is ", kMaxLayers));
  }
  return Builder(net, source, state, registry, warnings).Build();
}

}  // namespace crema
