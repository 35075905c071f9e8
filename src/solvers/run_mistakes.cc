#include "solvers/run_mistakes.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <span>
#include <string>
#include <utility>

#include "core/strings.h"
#include "crema.pb.h"
#include "graph/graph.h"

namespace crema {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

// Calls body(message, path) for a message and all that are set in it.
template <typename Body>
void ForEachMessage(const Message& message, const std::string& path, const Body& body) {
  body(message, path);
  const auto& reflection = *message.GetReflection();
  std::vector<const FieldDescriptor*> fields;
  reflection.ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) {
    if (field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) continue;
    const std::string below = path.empty() ? field->name() : StrCat(path, ".", field->name());
    const int size = field->is_repeated() ? reflection.FieldSize(message, field) : 1;
    for (int i = 0; i < size; ++i) {
      if (field->is_repeated()) {
        ForEachMessage(reflection.GetRepeatedMessage(message, field, i), StrCat(below, "[", i, "]"),
                       body);
      } else {
        ForEachMessage(reflection.GetMessage(message, field), below, body);
      }
    }
  }
}

// Returns data_param.source or the like, and its path; empty if the layer reads no data set.
std::pair<std::string, std::string> SourceOf(const LayerParameter& layer) {
  std::pair<std::string, std::string> found;
  ForEachMessage(layer, "", [&](const Message& message, const std::string& path) {
    const FieldDescriptor* field = message.GetDescriptor()->FindFieldByName("source");
    if (field == nullptr || field->is_repeated() || !found.first.empty()) return;
    if (field->cpp_type() != FieldDescriptor::CPPTYPE_STRING ||
        path.ends_with("infogain_loss_param")) {
      return;
    }
    found = {message.GetReflection()->GetString(message, field), path + ".source"};
  });
  return found;
}

std::string MeanOf(const TransformationParameter& transform) {
  if (transform.has_mean_file()) return transform.mean_file();
  std::vector<std::string> values;
  for (const float value : transform.mean_value()) values.push_back(StrCat(value));
  return values.empty() ? "none" : Join(values, ", ");
}

// Collects warnings, each once: several nets may come from one text.
class Warnings {
 public:
  void Add(const NetOfRun& net, int layer, const std::string& field, std::string message) {
    const LayerParameter& param = net.file.net.layer(layer);
    Where where = net.file.source.Locate(StrCat("layer[", layer, "].", field));
    where.layer = param.name();
    where.field = field;
    Add({ErrorCode::kInvalidArgument, std::move(where), std::move(message)});
  }

  void Add(Problem problem) {
    const auto same = [&](const Problem& p) { return ToString(p) == ToString(problem); };
    if (std::ranges::none_of(warnings_, same)) warnings_.push_back(std::move(problem));
  }

  std::vector<Problem> Take() { return std::move(warnings_); }

 private:
  std::vector<Problem> warnings_;
};

std::vector<int> LayersOf(const NetOfRun& net) {
  std::vector<int> layers;
  for (int i = 0; i < net.file.net.layer_size(); ++i) {
    if (IsIncluded(net.file.net.layer(i), net.state)) layers.push_back(i);
  }
  return layers;
}

void WarnAboutLossWeights(const NetOfRun& net, int i, Warnings* warnings) {
  const LayerParameter& layer = net.file.net.layer(i);
  for (int w = 0; w < layer.loss_weight_size(); ++w) {
    const float weight = layer.loss_weight(w);
    const std::string field = StrCat("loss_weight[", w, "]");
    if (weight != 0 && layer.type() == "Accuracy") {
      warnings->Add(net, i, field,
                    "an accuracy has no gradient, so that it cannot be a loss: remove loss_weight");
    } else if (weight < 0) {
      warnings->Add(net, i, field,
                    StrCat("loss_weight is ", weight, ": training makes this loss larger"));
    }
  }
}

void WarnAboutFillers(const NetOfRun& net, int i, Warnings* warnings) {
  const LayerParameter& layer = net.file.net.layer(i);
  ForEachMessage(layer, "", [&](const Message& message, const std::string& path) {
    const auto* filler = dynamic_cast<const FillerParameter*>(&message);
    if (filler == nullptr || filler->type() != "gaussian" || filler->has_std()) return;
    if (path.starts_with("dummy_data_param")) return;  // values of a source, not weights
    warnings->Add(net, i, path, "std is 1, Caffe's default, which is large; std: 0.01 is usual");
  });
}

void WarnAboutNet(const NetOfRun& net, Warnings* warnings) {
  std::map<std::string, const LayerParameter*> producers;
  for (const int i : LayersOf(net)) {
    const LayerParameter& layer = net.file.net.layer(i);
    if (layer.has_transform_param() && layer.transform_param().scale() == 0) {
      warnings->Add(net, i, "transform_param.scale", "scale is 0: every value becomes 0");
    }
    if (const float scale = layer.transform_param().scale(); scale >= 10) {
      warnings->Add(net, i, "transform_param.scale",
                    StrCat("scale is ", scale, ": bytes reach ", 255 * scale,
                           "; scale: 0.00390625 makes them 0 to 1"));
    }
    const bool is_loss = layer.type().ends_with("Loss");
    if (is_loss && layer.top_size() > 0 && std::ranges::count(layer.bottom(), layer.top(0)) > 0) {
      warnings->Add(net, i, "top[0]",
                    StrCat("the loss replaces its bottom '", layer.top(0),
                           "': give it a name of its own, such as 'loss'"));
    }
    if (layer.type() == "SoftmaxWithLoss" && layer.bottom_size() > 0) {
      const auto found = producers.find(layer.bottom(0));
      if (found != producers.end() && found->second->type() == "Softmax") {
        const LayerParameter& softmax = *found->second;
        warnings->Add(net, i, "bottom[0]",
                      StrCat("SoftmaxWithLoss computes the softmax itself: give it '",
                             softmax.bottom_size() > 0 ? softmax.bottom(0) : "",
                             "', the bottom of layer \"", softmax.name(), "\""));
      }
    }
    WarnAboutLossWeights(net, i, warnings);
    WarnAboutFillers(net, i, warnings);
    for (const std::string& top : layer.top()) producers[top] = &layer;
  }
}

// Compares the data layers of a test net with those of TRAIN that have the same first top.
void WarnAboutTestData(const NetOfRun& train, const NetOfRun& test, bool is_only_test,
                       Warnings* warnings) {
  std::map<std::string, const LayerParameter*> of_train;
  for (const int i : LayersOf(train)) {
    const LayerParameter& layer = train.file.net.layer(i);
    if (layer.top_size() > 0 && !SourceOf(layer).first.empty()) of_train[layer.top(0)] = &layer;
  }
  for (const int i : LayersOf(test)) {
    const LayerParameter& layer = test.file.net.layer(i);
    const auto [source, field] = SourceOf(layer);
    const auto found = layer.top_size() > 0 ? of_train.find(layer.top(0)) : of_train.end();
    if (source.empty() || found == of_train.end()) continue;
    const LayerParameter& other = *found->second;
    if (IsIncluded(layer, train.state)) continue;  // one layer for both phases, for a try
    if (is_only_test && SourceOf(other).first == source) {
      warnings->Add(test, i, field,
                    StrCat("TEST reads the training set, '", source,
                           "': its results say nothing about other data"));
    }
    const TransformationParameter& mine = layer.transform_param();
    const TransformationParameter& trained = other.transform_param();
    if (mine.scale() != trained.scale()) {
      warnings->Add(test, i, "transform_param.scale",
                    StrCat("TEST scales by ", mine.scale(), ", but TRAIN by ", trained.scale(),
                           ": give both layers the same transform_param.scale"));
    }
    if (MeanOf(mine) != MeanOf(trained)) {
      warnings->Add(test, i, "transform_param",
                    StrCat("the mean of TEST is ", MeanOf(mine), ", but that of TRAIN is ",
                           MeanOf(trained), ": give both layers the same mean"));
    }
  }
}

bool IsSame(const NetOfRun& a, const NetOfRun& b) {
  return a.state.SerializeAsString() == b.state.SerializeAsString() &&
         a.file.net.SerializeAsString() == b.file.net.SerializeAsString();
}

// Returns what is odd about gamma as a factor of the rate; empty for nothing.
std::string DoubtOfGamma(const SolverParameter& solver) {
  const std::string& policy = solver.lr_policy();
  const bool is_factor = policy == "step" || policy == "multistep" || policy == "exp";
  if (!is_factor || !solver.has_gamma()) return "";
  if (solver.gamma() > 1) {
    return StrCat("gamma ", solver.gamma(), " raises the rate; a gamma below 1 lowers it");
  }
  constexpr double kVanished = 1e-6;
  constexpr int kEarly = 100;
  if (policy != "exp" || solver.max_iter() < kEarly ||
      std::pow(double{solver.gamma()}, kEarly) > kVanished) {
    return "";
  }
  return StrCat("'exp' multiplies the rate by gamma in each iteration, so that nothing is left of ",
                "it after ", kEarly, "; use a gamma near 1, such as 0.999");
}

void WarnAboutSolver(const RunConfig& config, Warnings* warnings) {
  const SolverFile& solver = config.solver;
  const auto add = [&](const std::string& field, std::string message) {
    warnings->Add({ErrorCode::kInvalidArgument, solver.source.Locate(field), std::move(message)});
  };
  if (solver.solver.has_max_iter() && solver.solver.max_iter() == 0) {
    add("max_iter", "max_iter is 0: nothing is trained");
  }
  if (solver.solver.has_snapshot_prefix() && solver.solver.snapshot_prefix().empty() &&
      solver.solver.snapshot_after_train()) {
    add("snapshot_prefix", "snapshot_prefix is empty: nothing is saved; remove it for the default");
  }
  if (solver.solver.snapshot_prefix().starts_with('~')) {
    add("snapshot_prefix", "'~' is not expanded: this is a folder of that name; write it out");
  }
  const std::string gamma = DoubtOfGamma(solver.solver);
  if (!gamma.empty()) add("gamma", gamma);
  for (const auto& [field, rule] : {std::pair{"early_stop", &solver.solver.early_stop()},
                                    {"snapshot_best", &solver.solver.snapshot_best()},
                                    {"plateau", &solver.solver.plateau()}}) {
    if (rule->mode() != MetricRule::MIN || rule->metric().find("accuracy") == std::string::npos) {
      continue;
    }
    add(StrCat(field, ".mode"), StrCat("the smallest ", rule->metric(),
                                       " counts as the best: ", "remove mode, or write MAX"));
  }
  for (size_t i = 1; i < config.tests.size(); ++i) {
    const auto before = std::span(config.tests).first(i);
    const auto same = [&](const NetOfRun& other) { return IsSame(other, config.tests[i]); };
    if (std::ranges::none_of(before, same)) continue;
    add(StrCat("test_iter[", i, "]"),
        StrCat("test net #", i, " is the same net as one before it: one test_iter is enough"));
  }
}

}  // namespace

std::vector<Problem> WarnAboutRun(const RunConfig& config) {
  Warnings warnings;
  WarnAboutSolver(config, &warnings);
  WarnAboutNet(config.train, &warnings);
  for (const NetOfRun& test : config.tests) {
    WarnAboutNet(test, &warnings);
    WarnAboutTestData(config.train, test, config.tests.size() == 1, &warnings);
  }
  return warnings.Take();
}

std::vector<Problem> WarnAboutFrozenNet(const SolverFile& solver, const Plan& train) {
  if (solver.solver.freeze_size() == 0) return {};
  if (std::ranges::any_of(train.layers, &PlannedLayer::backward)) return {};
  return {{ErrorCode::kInvalidArgument, solver.source.Locate("freeze[0]"),
           "freeze holds every layer, so that nothing is learned"}};
}

std::vector<Problem> WarnAboutUntrainedLayers(const Plan& train, const NetOfRun& net,
                                              const Plan& test, size_t index) {
  const auto is_trained = [&](const std::string& name) {
    return std::ranges::any_of(train.layers, [&](const PlannedLayer& layer) {
      return layer.name() == name && !layer.parameters.empty();
    });
  };
  std::vector<Problem> warnings;
  for (const PlannedLayer& layer : test.layers) {
    if (layer.parameters.empty() || is_trained(layer.name())) continue;
    Where where;
    for (const int i : LayersOf(net)) {
      if (net.file.net.layer(i).name() != layer.name()) continue;
      where = net.file.source.Locate(StrCat("layer[", i, "]"));
    }
    where.layer = layer.name();
    warnings.push_back({ErrorCode::kInvalidArgument, std::move(where),
                        StrCat("test net #", index,
                               " has this layer, but the training net has not: it stays at "
                               "its fillers; give the layer of both nets one name")});
  }
  return warnings;
}

}  // namespace crema
