#include "evaluate/answers.h"

#include <algorithm>
#include <span>
#include <string_view>
#include <vector>

#include "core/error.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "graph/detections.h"

namespace crema::tools {
namespace {

// Input 0: scores or probabilities of classes; input 1: labels.
constexpr std::string_view kLosses[] = {"SoftmaxWithLoss",
                                        "WeightedSoftmaxWithLoss",
                                        "MultinomialLogisticLoss",
                                        "InfogainLoss",
                                        "FocalLoss",
                                        "HingeLoss",
                                        "SigmoidCrossEntropyLoss"};
constexpr std::string_view kAccuracies[] = {"Accuracy"};
constexpr std::string_view kJudges[] = {"DetectionEvaluate"};

const PlannedValue& ValueOf(const Plan& plan, int v) { return plan.values[static_cast<size_t>(v)]; }
const PlannedLayer& ProducerOf(const Plan& plan, int v) {
  return plan.layers[static_cast<size_t>(ValueOf(plan, v).producer)];
}
std::string_view TypeOf(const PlannedLayer& layer) { return layer.type->name; }

// Returns the value that the user named, before inserted Splits.
int BeforeSplits(const Plan& plan, int v) {
  while (TypeOf(ProducerOf(plan, v)) == "Split") v = ProducerOf(plan, v).inputs[0];
  return v;
}

bool ComesFrom(std::string_view type, const Plan& plan, int v) {
  while (true) {
    const PlannedLayer& layer = ProducerOf(plan, v);
    if (TypeOf(layer) == type) return true;
    const bool passes =
        TypeOf(layer) == "Split" || TypeOf(layer) == "Reshape" || TypeOf(layer) == "Flatten";
    if (!passes) return false;
    v = layer.inputs[0];
  }
}

class Finder {
 public:
  Finder(const Plan& plan, const std::string& prediction, const std::string& label)
      : plan_(plan), prediction_(prediction), label_(label) {}

  Answers Find() {
    if (!prediction_.empty()) prediction_value_ = Named(prediction_, "prediction");
    if (!label_.empty()) label_value_ = Named(label_, "label");
    if (WantsDetection()) {
      ReadDetection();
    } else {
      ReadClasses();
    }
    answers_.prediction = ValueOf(plan_, prediction_value_).name;
    answers_.label = ValueOf(plan_, label_value_).name;
    if (ProducerOf(plan_, label_value_).inputs.empty()) {
      answers_.data_layer = ValueOf(plan_, label_value_).producer;
    }
    if (answers_.task == Task::kDetection) {
      CheckBoxes();
    } else {
      CheckClasses();
    }
    return answers_;
  }

 private:
  int Named(const std::string& blob, const char* flag) const {
    const int value = plan_.FindValue(blob);
    if (value >= 0) return BeforeSplits(plan_, value);
    std::vector<std::string> names;
    for (const PlannedValue& v : plan_.values) names.push_back(v.name);
    Fail(ErrorCode::kInvalidArgument,
         StrCat("--", flag, ": the net has no blob '", blob, "'", DidYouMean(blob, names)));
  }

  // Returns the last layer of one of the types; with --prediction, one that reads it, unless `any`.
  const PlannedLayer* Last(std::span<const std::string_view> types, bool any = false) const {
    const PlannedLayer* found = nullptr;
    for (const PlannedLayer& layer : plan_.layers) {
      if (std::ranges::find(types, TypeOf(layer)) == types.end()) continue;
      const bool reads_it = !layer.inputs.empty() && prediction_value_ >= 0 &&
                            BeforeSplits(plan_, layer.inputs[0]) == prediction_value_;
      if (any || prediction_value_ < 0 || reads_it) found = &layer;
    }
    return found;
  }

  bool WantsDetection() const {
    const auto makes_detections = [](const PlannedLayer& layer) {
      return MakesDetections(TypeOf(layer));
    };
    if (prediction_value_ < 0) {
      return Last(kJudges) != nullptr || std::ranges::any_of(plan_.layers, makes_detections);
    }
    return Last(kJudges) != nullptr || makes_detections(ProducerOf(plan_, prediction_value_));
  }

  void Take(const PlannedLayer& layer) {
    answers_.layer = layer.name();
    if (prediction_value_ < 0) prediction_value_ = BeforeSplits(plan_, layer.inputs[0]);
    if (label_value_ < 0) label_value_ = BeforeSplits(plan_, layer.inputs[1]);
  }

  void ReadDetection() {
    answers_.task = Task::kDetection;
    if (const PlannedLayer* judge = Last(kJudges); judge != nullptr) {
      const DetectionEvaluateParameter& param = judge->layer->param().detection_evaluate_param();
      answers_.classes = param.num_classes();
      answers_.background = static_cast<int32_t>(param.background_label_id());
      answers_.overlap = double{param.overlap_threshold()};
      answers_.difficult_counts = param.evaluate_difficult_gt();
      Take(*judge);
      return;
    }
    // Without --prediction: the last layer that outputs boxes.
    const PlannedLayer* maker = nullptr;
    for (const PlannedLayer& layer : plan_.layers) {
      const bool makes_it =
          prediction_value_ < 0 || &layer == &ProducerOf(plan_, prediction_value_);
      if (MakesDetections(TypeOf(layer)) && makes_it) maker = &layer;
    }
    const DetectionFacts facts = DetectionFactsOf(maker->layer->param());
    answers_.layer = maker->name();
    answers_.classes = facts.classes;
    answers_.background = facts.background;
    prediction_value_ = maker->outputs[0];
    if (label_value_ < 0) label_value_ = ObjectsOfNet();
  }

  // Returns the labels of MultiBoxLoss or AnnotatedData.
  int ObjectsOfNet() const {
    for (const PlannedLayer& layer : plan_.layers) {
      if (TypeOf(layer) == "MultiBoxLoss") return BeforeSplits(plan_, layer.inputs[3]);
      if (TypeOf(layer) == "AnnotatedData" && layer.outputs.size() > 1) return layer.outputs[1];
    }
    Fail(ErrorCode::kInvalidArgument,
         StrCat("the net detects boxes, but has neither DetectionEvaluate nor AnnotatedData: name "
                "the blob of true boxes with --label"));
  }

  void ReadClasses() {
    const PlannedLayer* reader = Last(kLosses);
    if (reader == nullptr) reader = Last(kAccuracies);
    if (reader != nullptr) {
      Take(*reader);
      ReadParameters(*reader);
    } else if (const PlannedLayer* other = Last(kLosses, true); other != nullptr) {
      if (label_value_ < 0) label_value_ = BeforeSplits(plan_, other->inputs[1]);
    }
    if (prediction_value_ < 0 || label_value_ < 0) {
      Fail(
          ErrorCode::kInvalidArgument,
          "no layer of the TEST phase compares predictions with labels (SoftmaxWithLoss, Accuracy, "
          "DetectionEvaluate, ...): name the blobs with --prediction and --label");
    }
    answers_.probabilities =
        answers_.probabilities || ComesFrom("Softmax", plan_, prediction_value_) ||
        (Count(prediction_value_, 1) == 1 && ComesFrom("Sigmoid", plan_, prediction_value_));
  }

  void ReadParameters(const PlannedLayer& layer) {
    const LayerParameter& param = layer.layer->param();
    const std::string_view type = TypeOf(layer);
    if (type == "Accuracy") {
      answers_.axis = param.accuracy_param().axis();
      if (param.accuracy_param().has_ignore_label()) {
        answers_.ignored = param.accuracy_param().ignore_label();
      }
      return;
    }
    answers_.axis =
        type == "InfogainLoss" ? param.infogain_loss_param().axis() : param.softmax_param().axis();
    if (param.loss_param().has_ignore_label()) answers_.ignored = param.loss_param().ignore_label();
    answers_.probabilities = type == "MultinomialLogisticLoss";
    if (type == "SigmoidCrossEntropyLoss" && Count(prediction_value_, 1) != 1) {
      Fail(ErrorCode::kInvalidArgument,
           StrCat("layer \"", layer.name(),
                  "\": a SigmoidCrossEntropyLoss over several outputs has no classes that exclude "
                  "each other, so there is no report; name other blobs with --prediction and "
                  "--label"));
    }
  }

  // Number of elements per index of axes up to `axis`.
  int64_t Count(int v, int axis) const {
    const Shape& shape = ValueOf(plan_, v).spec.shape;
    return shape.axes() > axis ? shape.count(axis) : 1;
  }

  [[noreturn]] void FailShapes(const std::string& expected) const {
    const PlannedValue& prediction = ValueOf(plan_, prediction_value_);
    const PlannedValue& label = ValueOf(plan_, label_value_);
    Fail(ErrorCode::kInvalidArgument,
         StrCat("the predictions '", prediction.name, "' have shape ",
                ToString(prediction.spec.shape), " and the labels '", label.name, "' ",
                ToString(label.spec.shape), "; ", expected));
  }

  void CheckBoxes() const {
    const auto rows = [&](int v, int64_t columns) {
      const Shape& shape = ValueOf(plan_, v).spec.shape;
      return shape.axes() == 4 && shape[3] == columns;
    };
    if (!rows(prediction_value_, 7) || !rows(label_value_, 8)) {
      FailShapes("expected boxes 1 x 1 x D x 7 and objects 1 x 1 x G x 8");
    }
  }

  void CheckClasses() {
    const Shape& shape = ValueOf(plan_, prediction_value_).spec.shape;
    const int64_t labels = ValueOf(plan_, label_value_).spec.shape.count();
    const int axis = answers_.axis < 0 ? answers_.axis + shape.axes() : answers_.axis;
    if (axis < 0 || axis >= shape.axes()) {
      FailShapes(StrCat("expected scores of classes on axis ", answers_.axis));
    }
    answers_.axis = axis;
    answers_.classes = shape[axis];
    const int64_t inner = shape.count(axis + 1);
    const int64_t positions = answers_.classes == 0 ? 0 : shape.count() / answers_.classes;
    if (positions != labels) {
      FailShapes(StrCat("expected one label for each of the ", positions, " predictions"));
    }
    answers_.task = inner == 1 ? Task::kClassification : Task::kSegmentation;
  }

  const Plan& plan_;
  const std::string& prediction_;
  const std::string& label_;
  int prediction_value_ = -1;
  int label_value_ = -1;
  Answers answers_;
};

}  // namespace

Answers FindAnswers(const Plan& plan, const std::string& prediction, const std::string& label) {
  return Finder(plan, prediction, label).Find();
}

}  // namespace crema::tools
