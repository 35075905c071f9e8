#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>

#include "common/gpu_flag.h"
#include "common/json.h"
#include "common/plan_flags.h"
#include "common/tool.h"
#include "common/weights_flags.h"
#include "core/strings.h"
#include "deploy/actions.h"
#include "deploy/options.h"
#include "serving/classifier.h"

DECLARE_string(mean);
DEFINE_int32(top, 5, "classify: how many classes to print, best first");
DEFINE_string(output, "", "classify: blob with the scores, for nets with several outputs");

namespace crema::tools {
namespace {

std::vector<float> MeanOf(const Classifier& classifier) {
  std::error_code error;
  if (std::filesystem::exists(FLAGS_mean, error)) return classifier.ReadMean(FLAGS_mean);
  return MeanNumbers(classifier.channels());
}

std::vector<std::string> LabelsOf(const Classifier& classifier) {
  if (FLAGS_labels.empty()) return {};
  std::vector<std::string> labels = ReadLines(FLAGS_labels);
  if (static_cast<int>(labels.size()) != classifier.classes()) {
    Fail(ErrorCode::kInvalidArgument, StrCat(FLAGS_labels, " has ", labels.size(), " labels, but ",
                                             "the net has ", classifier.classes(), " classes"));
  }
  return labels;
}

std::string LabelOf(const std::vector<std::string>& labels, int index) {
  return labels.empty() ? std::to_string(index) : labels[static_cast<size_t>(index)];
}

std::string Describe(const std::string& image, const std::vector<Prediction>& predictions,
                     const std::vector<std::string>& labels) {
  const size_t most = std::min(predictions.size(), static_cast<size_t>(FLAGS_top));
  std::string text =
      FLAGS_json ? StrCat("{\"image\": ", JsonString(image), ", \"predictions\": [") : image + ":";
  for (size_t k = 0; k < most; ++k) {
    const std::string label = LabelOf(labels, predictions[k].index);
    if (FLAGS_json) {
      text += StrCat(k == 0 ? "" : ", ", "{\"label\": ", JsonString(label),
                     ", \"index\": ", predictions[k].index,
                     ", \"score\": ", JsonNumber(predictions[k].score), "}");
    } else {
      char score[32];
      std::snprintf(score, sizeof(score), "%.4f", predictions[k].score);
      text += StrCat(k == 0 ? " " : ", ", label, " ", score);
    }
  }
  return FLAGS_json ? text + "]}" : text;
}

}  // namespace

int Classify(const std::vector<std::string>& arguments) {
  CheckCommonFlags();
  if (FLAGS_top < 1) Fail(ErrorCode::kInvalidArgument, StrCat("--top is ", FLAGS_top));
  const std::vector<std::string> images = ImagesOf(arguments);
  const Registry registry = BuiltinRegistry();
  const NetFile net = ReadNet(FLAGS_model);
  const WeightsFiles weights = WeightsOfFlags({FLAGS_weights}, MissingLayers::kError);
  const Classifier classifier(net, weights, FLAGS_output, registry, ToolLog(), PlanOptionsOfFlags(),
                              DeviceOfFlag());
  const Preprocessing preprocessing{
      .invert = FLAGS_invert, .scale = static_cast<float>(FLAGS_scale), .mean = MeanOf(classifier)};
  const std::vector<std::string> labels = LabelsOf(classifier);
  return PrintAnswers(AnswerAll(images, [&]() -> Answerer {
    auto worker = std::make_shared<Classifier::Worker>(classifier, 1);
    return [&, worker](const std::string& bytes, const std::string& image) {
      return Describe(image, worker->Classify(bytes, image, preprocessing), labels);
    };
  }));
}

}  // namespace crema::tools
