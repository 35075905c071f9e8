#include <array>
#include <cstdio>
#include <functional>
#include <memory>
#include <utility>

#include "common/json.h"
#include "common/plugin_flag.h"
#include "common/preprocessing_flags.h"
#include "common/tool.h"
#include "core/strings.h"
#include "data/image/draw_boxes.h"
#include "deploy/actions.h"
#include "deploy/answers.h"
#include "deploy/detect_options.h"
#include "deploy/drawings.h"
#include "deploy/options.h"
#include "inference/cascade.h"
#include "inference/detector.h"
#include "onnx/import.h"

DEFINE_string(cascade, "",
              "[Input FILE @detect] in place of --model: a file that names the nets of a cascade, "
              "such as MTCNN, with their thresholds (docs/deploy.md)");

namespace crema::tools {
namespace {

std::vector<std::array<double, 2>> PointsOf(const FoundBox& found) {
  std::vector<std::array<double, 2>> points;
  for (const KeyPoint& point : found.keypoints) points.push_back({point.x, point.y});
  return points;
}

// Empty without key points.
std::string PointsJson(const FoundBox& found) {
  std::string text;
  for (const KeyPoint& point : found.keypoints) {
    text += StrCat(text.empty() ? ", \"keypoints\": [" : ", ", "[", JsonNumber(point.x), ", ",
                   JsonNumber(point.y), "]");
  }
  return text.empty() ? text : text + "]";
}

// Returns the boxes of each image.
using Find = std::function<std::vector<std::vector<FoundBox>>(std::span<const Image>)>;

class DetectWorker final : public PictureWorker {
 public:
  DetectWorker(Find find, const std::vector<std::string>& names)
      : find_(std::move(find)), names_(names) {}

  std::vector<Answer> Run(std::span<const Image> images,
                          std::span<const InputPicture> pictures) override {
    const std::vector<std::vector<FoundBox>> found = find_(images);
    std::vector<Answer> answers;
    for (size_t i = 0; i < images.size(); ++i) answers.push_back(AnswerOf(pictures[i], found[i]));
    return answers;
  }

 private:
  Answer AnswerOf(const InputPicture& picture, const std::vector<FoundBox>& found) const {
    std::vector<CaptionedBox> boxes;
    std::vector<std::vector<float>> rows;
    for (const FoundBox& f : found) {
      boxes.push_back(
          {f.box, StrCat(LabelOf(names_, f.label), " ", Fixed(f.score, 2)), f.label, PointsOf(f)});
      rows.push_back({static_cast<float>(picture.number), static_cast<float>(f.label),
                      static_cast<float>(f.score), static_cast<float>(f.box.xmin),
                      static_cast<float>(f.box.ymin), static_cast<float>(f.box.xmax),
                      static_cast<float>(f.box.ymax)});
    }
    return {.text = FLAGS_json ? Json(picture, found) : Text(picture, found),
            .draw = [boxes](Image* image) { DrawBoxes(boxes, image); },
            .rows = std::move(rows)};
  }

  std::string Text(const InputPicture& picture, const std::vector<FoundBox>& found) const {
    std::string text =
        StrCat(picture.Title(), ": ", found.size(), found.size() == 1 ? " box" : " boxes");
    for (const FoundBox& f : found) {
      char line[160];
      std::snprintf(line, sizeof(line), "%s %.1f %.1f %.1f %.1f", Fixed(f.score, 4).c_str(),
                    f.box.xmin, f.box.ymin, f.box.xmax, f.box.ymax);
      text += StrCat("\n  ", LabelOf(names_, f.label), " ", line);
    }
    return text;
  }

  std::string Json(const InputPicture& picture, const std::vector<FoundBox>& found) const {
    std::string text = StrCat("{", picture.JsonFields(), ", \"detections\": [");
    for (size_t i = 0; i < found.size(); ++i) {
      const FoundBox& f = found[i];
      text += StrCat(i == 0 ? "" : ", ", "{\"label\": ", JsonString(LabelOf(names_, f.label)),
                     ", \"index\": ", f.label, ", \"score\": ", JsonNumber(f.score), ", \"box\": [",
                     JsonNumber(f.box.xmin), ", ", JsonNumber(f.box.ymin), ", ",
                     JsonNumber(f.box.xmax), ", ", JsonNumber(f.box.ymax), "]", PointsJson(f), "}");
    }
    return text + "]}";
  }

  Find find_;
  const std::vector<std::string>& names_;
};

std::shared_ptr<const Model> OpenDetector(const ModelNames& names, const Registry& registry) {
  if (IsModelFile(names.model)) return OpenModel(names, registry, ModelOptionsOfFlags());
  ModelCard card;
  NetFile net = NetOfFlags(names, registry, &card);
  if (HasDecoder(net.net)) {
    DecoderChanges changes = DecoderOfFlags();
    changes.confidence = FLAGS_confidence;
    ConfigureDecoder(changes, &net);
  }
  return MakeModel(net, names, card, registry, ModelOptionsOfFlags());
}

Find FindByModel(const Detector& detector, const Preprocessing& preprocessing) {
  const auto worker = std::make_shared<Detector::Worker>(detector, preprocessing);
  return [worker](std::span<const Image> images) { return worker->Detect(images); };
}

Find FindByCascade(const Cascade& cascade) {
  const auto runner = std::make_shared<CascadeRunner>(cascade);
  return [runner](std::span<const Image> images) {
    std::vector<std::vector<FoundBox>> all;
    for (const Image& image : images) {
      all.push_back(runner->Detect(image));
      if (!IsGiven("confidence")) continue;
      std::erase_if(all.back(), [](const FoundBox& f) { return !(f.score > FLAGS_confidence); });
    }
    return all;
  };
}

int DetectByCascade(const std::vector<std::string>& arguments) {
  std::vector<std::string> others = PreprocessingFlags();
  for (const char* flag :
       {"model", "run", "solver", "weights", "shape", "precision", "tail", "head", "nms"}) {
    others.emplace_back(flag);
  }
  for (const std::string& flag : others) {
    if (!IsGiven(flag.c_str())) continue;
    Fail(ErrorCode::kInvalidArgument,
         StrCat("--", flag, " has no effect with --cascade, whose file has the nets"));
  }
  CheckDetectFlags();
  CheckPictureFlags(arguments);
  const Registry registry = LayersOfFlag();
  const Cascade cascade(FLAGS_cascade, registry,
                        {.model = ModelOptionsOfFlags(), .open_onnx = OpenOnnxNet}, ToolLog());
  const std::vector<std::string> labels =
      FLAGS_labels.empty() ? std::vector<std::string>() : LabelsOfFile();
  return AnswerPictures(
      arguments,
      {.make_worker =
           [&] { return std::make_unique<DetectWorker>(FindByCascade(cascade), labels); },
       .columns = 7});
}

}  // namespace

int Detect(const std::vector<std::string>& arguments) {
  if (!FLAGS_cascade.empty()) return DetectByCascade(arguments);
  const ModelNames names = ModelOfFlags();
  CheckDetectFlags();
  CheckPictureFlags(arguments);
  const Registry registry = LayersOfFlag();
  const Detector detector(OpenDetector(names, registry), FLAGS_confidence);
  const Preprocessing preprocessing = PreprocessingOfFlags(detector.image_model());
  WarnOfPixels(detector.image_model(), preprocessing);
  const std::vector<std::string> labels =
      LabelsOfFlags(detector.image_model().model(), detector.classes(), detector.classes_note());
  return AnswerPictures(arguments, {.mode = detector.image_model().color_mode(),
                                    .make_worker =
                                        [&] {
                                          return std::make_unique<DetectWorker>(
                                              FindByModel(detector, preprocessing), labels);
                                        },
                                    .columns = 7});
}

}  // namespace crema::tools
