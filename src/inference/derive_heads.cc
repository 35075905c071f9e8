#include "inference/derive_heads.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "core/error.h"
#include "core/strings.h"
#include "graph/detections.h"

namespace crema {
namespace {

// The name of the type, not of an alias.
std::string TypeOf(const LayerParameter& layer, const Registry& registry) {
  const LayerType* type = registry.Find(layer.type());
  return type == nullptr || type->alias_of.empty() ? layer.type() : type->alias_of;
}

bool IsMetric(const LayerParameter& layer, const Registry& registry) {
  const LayerType* type = registry.Find(layer.type());
  return type != nullptr && (type->category == "metric" || type->name == "DetectionEvaluate");
}

double LossWeight(const LayerParameter& layer, const Registry& registry) {
  if (layer.loss_weight_size() > 0) return *std::ranges::max_element(layer.loss_weight());
  const LayerType* type = registry.Find(layer.type());
  return type == nullptr ? 0 : type->default_loss_weight;
}

bool IsLoss(const LayerParameter& layer, const Registry& registry) {
  const LayerType* type = registry.Find(layer.type());
  return (type != nullptr && type->default_loss_weight != 0) || LossWeight(layer, registry) != 0;
}

LayerParameter SoftmaxFor(const std::string& type, const LayerParameter& loss) {
  LayerParameter softmax;
  softmax.set_type("Softmax");
  int axis = 1;
  if (type.starts_with("SoftmaxWithLoss")) axis = loss.softmax_param().axis();
  if (type == "InfogainLoss") axis = loss.infogain_loss_param().axis();
  if (type == "FocalLoss") axis = loss.focal_loss_param().axis();
  if (type == "CTCLoss") axis = 2;
  if (axis != 1) softmax.mutable_softmax_param()->set_axis(axis);
  return softmax;
}

// The effect of a loss on the deploy net.
struct Replacement {
  bool known = true;
  bool has_output = true;                 // false: it adds none
  std::optional<LayerParameter> by = {};  // nothing: bottom 0 is the output
};

Replacement ReplacementOf(const LayerParameter& loss, const Registry& registry) {
  constexpr std::array<std::string_view, 5> kSoftmax = {"SoftmaxWithLoss", "SoftmaxWithLossOHEM",
                                                        "InfogainLoss", "FocalLoss", "CTCLoss"};
  constexpr std::array<std::string_view, 8> kPlain = {
      "HingeLoss", "MultinomialLogisticLoss", "EuclideanLoss", "SmoothL1Loss", "SmoothL1LossOHEM",
      "L1Loss",    "ContrastiveLoss",         "TripletLoss"};
  const std::string type = TypeOf(loss, registry);
  if (std::ranges::count(kSoftmax, type) > 0) return {.by = SoftmaxFor(type, loss)};
  if (type == "SigmoidCrossEntropyLoss") {
    Replacement sigmoid{.by = LayerParameter()};
    sigmoid.by->set_type("Sigmoid");
    return sigmoid;
  }
  if (std::ranges::count(kPlain, type) > 0) return {};
  if (type == "CenterLoss") return {.has_output = false};
  return {.known = false};
}

class Finder {
 public:
  Finder(const NetFile& training, const std::vector<TrainingLayer>& layers,
         const Registry& registry)
      : training_(training), layers_(layers), registry_(registry) {
    for (const TrainingLayer& layer : layers) {
      if (IsDataLayer(*layer.param)) AddTo(&data_, layer.param->top());
    }
  }

  Heads Find() {
    AddDetections();
    AddLosses();
    if (found_.heads.empty()) AddOfMetrics();
    AddOtherOutputs();
    if (found_.heads.empty()) {
      Fail(ErrorCode::kInvalidArgument,
           "no deploy net can be derived: the net has no loss and no metric, so its predictions "
           "are unknown; "
           "write the deploy net by hand (docs/deploy.md)",
           {.file = training_.source.file});
    }
    return std::move(found_);
  }

 private:
  template <typename Names>
  static void AddTo(std::set<std::string>* set, const Names& names) {
    set->insert(names.begin(), names.end());
  }

  void Note(const LayerParameter& layer, const std::string& text) {
    found_.notes.push_back(StrCat("layer \"", layer.name(), "\" (", layer.type(), ") ", text));
  }

  void Add(Head head) {
    const bool known = std::ranges::any_of(
        found_.heads, [&](const Head& other) { return other.output() == head.output(); });
    if (!known) found_.heads.push_back(std::move(head));
  }

  void AddDetections() {
    for (size_t i = 0; i < layers_.size(); ++i) {
      const LayerParameter& layer = *layers_[i].param;
      if (!MakesDetections(layer.type()) || layer.top_size() == 0) continue;
      detects_ = true;
      Add({.at = i + 1, .blob = layer.top(0)});
    }
  }

  // Returns the largest weight of the losses of the same label.
  double LargestWeight(const LayerParameter& loss) const {
    double largest = 0;
    for (const TrainingLayer& other : layers_) {
      const bool same = IsLoss(*other.param, registry_) && other.param->bottom_size() > 1 &&
                        other.param->bottom(1) == loss.bottom(1);
      if (same) largest = std::max(largest, LossWeight(*other.param, registry_));
    }
    return largest;
  }

  void AddLosses() {
    std::vector<size_t> unknown;
    for (size_t i = 0; i < layers_.size(); ++i) {
      const LayerParameter& loss = *layers_[i].param;
      if (!IsLoss(loss, registry_) || loss.bottom_size() == 0) continue;
      if (loss.type() == "MultiBoxLoss") {
        AddMultiBox(i);
        continue;
      }
      const double weight = LossWeight(loss, registry_);
      if (loss.bottom_size() > 1 && weight < LargestWeight(loss)) {
        Note(loss, StrCat("is auxiliary (loss_weight ", weight, "): left out"));
        continue;
      }
      const Replacement replacement = ReplacementOf(loss, registry_);
      if (!replacement.known) unknown.push_back(i);
      if (replacement.known && replacement.has_output) AddLoss(i, replacement);
    }
    if (unknown.empty()) return;
    if (found_.heads.empty()) FailUnknown(layers_[unknown.front()]);
    for (const size_t i : unknown) {
      Note(*layers_[i].param, "has a loss_weight, but no known rule replaces it: left out");
    }
  }

  [[noreturn]] void FailUnknown(const TrainingLayer& layer) const {
    Where where = training_.source.Locate(StrCat("layer[", layer.index, "]"));
    where.layer = layer.param->name();
    Fail(ErrorCode::kInvalidArgument,
         StrCat("no rule says what replaces a loss of type ", layer.param->type(),
                " in a deploy net: write the deploy net by hand (docs/deploy.md)"),
         where);
  }

  void AddMultiBox(size_t at) {
    if (detects_) return;
    const LayerParameter& loss = *layers_[at].param;
    Note(loss,
         "has no DetectionOutput in phase TEST: the outputs are raw boxes and scores, which --tail "
         "can decode");
    for (int b = 0; b < std::min(loss.bottom_size(), 3); ++b) {
      Add({.at = at, .blob = loss.bottom(b)});
    }
  }

  void AddLoss(size_t at, const Replacement& replacement) {
    const LayerParameter& loss = *layers_[at].param;
    // Some nets give the label first.
    const bool swapped = loss.bottom_size() > 1 && data_.contains(loss.bottom(0));
    const std::string& scores = loss.bottom(swapped ? 1 : 0);
    if (loss.type() == "ContrastiveLoss" || loss.type() == "TripletLoss") {
      Note(loss, StrCat("compares branches with common weights: the output is that of the first, '",
                        scores, "'"));
    }
    if (!replacement.by) {
      Add({.at = at, .blob = scores});
    } else if (const std::optional<Head> existing = Existing(*replacement.by, scores)) {
      Add(*existing);
    } else {
      Head head{.at = at, .blob = scores, .layer = replacement.by};
      Name(loss, &*head.layer);
      head.layer->add_bottom(scores);
      Add(std::move(head));
    }
  }

  // Returns the layer of phase TEST that already does the work.
  std::optional<Head> Existing(const LayerParameter& wanted, const std::string& scores) const {
    for (size_t i = 0; i < layers_.size(); ++i) {
      const LayerParameter& layer = *layers_[i].param;
      const bool does = layer.type() == wanted.type() && layer.bottom_size() == 1 &&
                        layer.bottom(0) == scores && layer.top_size() == 1;
      if (does) return Head{.at = i + 1, .blob = layer.top(0)};
    }
    return std::nullopt;
  }

  // Names layer and top "prob" if that is unused, else as the loss.
  void Name(const LayerParameter& loss, LayerParameter* layer) const {
    const auto uses = [](const TrainingLayer& other) {
      return other.param->name() == "prob" || std::ranges::count(other.param->top(), "prob") > 0;
    };
    const bool used =
        std::ranges::any_of(layers_, uses) ||
        std::ranges::any_of(found_.heads, [](const Head& head) { return head.output() == "prob"; });
    layer->set_name(used ? loss.name() : "prob");
    layer->add_top(layer->name());
  }

  void AddOfMetrics() {
    for (size_t i = 0; i < layers_.size(); ++i) {
      const LayerParameter& metric = *layers_[i].param;
      if (!IsMetric(metric, registry_) || metric.bottom_size() == 0) continue;
      Note(metric, StrCat("defines the output '", metric.bottom(0),
                          "', as the net has no loss; no Softmax is appended"));
      Add({.at = i, .blob = metric.bottom(0)});
    }
  }

  // By blob: the data that it depends on.
  std::map<std::string, std::set<std::string>> DataOfBlobs() const {
    std::map<std::string, std::set<std::string>> sources;
    for (const TrainingLayer& layer : layers_) {
      std::set<std::string> all;
      for (const std::string& bottom : layer.param->bottom()) AddTo(&all, sources[bottom]);
      for (const std::string& top : layer.param->top()) {
        if (IsDataLayer(*layer.param)) {
          sources[top] = {top};
        } else {
          AddTo(&sources[top], all);
        }
      }
    }
    return sources;
  }

  // Returns the data that predictions may depend on: that of the heads, or the first top of each
  // data layer.
  std::set<std::string> AllowedData(
      const std::map<std::string, std::set<std::string>>& sources) const {
    std::set<std::string> allowed;
    for (const Head& head : found_.heads) {
      const auto data = sources.find(head.blob);
      if (data != sources.end()) AddTo(&allowed, data->second);
    }
    if (!found_.heads.empty()) return allowed;
    for (const TrainingLayer& layer : layers_) {
      if (IsDataLayer(*layer.param) && layer.param->top_size() > 0) {
        allowed.insert(layer.param->top(0));
      }
    }
    return allowed;
  }

  // Adds outputs of the net that do not depend on labels.
  void AddOtherOutputs() {
    std::set<std::string> read;
    for (const TrainingLayer& layer : layers_) {
      for (const std::string& bottom : layer.param->bottom()) {
        if (std::ranges::count(layer.param->top(), bottom) == 0) read.insert(bottom);
      }
    }
    const auto sources = DataOfBlobs();
    const std::set<std::string> allowed = AllowedData(sources);
    for (size_t i = 0; i < layers_.size(); ++i) {
      const LayerParameter& layer = *layers_[i].param;
      if (IsDataLayer(layer) || layer.bottom_size() == 0 || OnlyTrainsOrTests(layer, registry_)) {
        continue;
      }
      for (const std::string& top : layer.top()) {
        if (read.contains(top) || !std::ranges::includes(allowed, sources.at(top))) continue;
        Add({.at = layers_.size(), .blob = top});
      }
    }
  }

  const NetFile& training_;
  const std::vector<TrainingLayer>& layers_;
  const Registry& registry_;
  std::set<std::string> data_;  // tops of data layers
  bool detects_ = false;
  Heads found_;
};

}  // namespace

bool IsDataLayer(const LayerParameter& layer) {
  return layer.bottom_size() == 0 && (layer.type().ends_with("Data") || layer.type() == "Python");
}

bool OnlyTrainsOrTests(const LayerParameter& layer, const Registry& registry) {
  return IsLoss(layer, registry) || IsMetric(layer, registry) || layer.type() == "Silence" ||
         layer.type() == "HDF5Output";
}

Heads FindHeads(const NetFile& training, const std::vector<TrainingLayer>& layers,
                const Registry& registry) {
  return Finder(training, layers, registry).Find();
}

}  // namespace crema
