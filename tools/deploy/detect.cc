#include <array>
#include <cstdio>
#include <memory>

#include "common/json.h"
#include "common/plugin_flag.h"
#include "common/tool.h"
#include "core/strings.h"
#include "data/image/draw_boxes.h"
#include "deploy/actions.h"
#include "deploy/answers.h"
#include "deploy/detect_options.h"
#include "deploy/drawings.h"
#include "deploy/options.h"
#include "inference/detector.h"

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

class DetectWorker final : public PictureWorker {
 public:
  DetectWorker(const Detector& detector, const Preprocessing& preprocessing,
               const std::vector<std::string>& names)
      : worker_(detector, preprocessing), names_(names) {}

  std::vector<Answer> Run(std::span<const Image> images,
                          std::span<const InputPicture> pictures) override {
    const std::vector<std::vector<FoundBox>> found = worker_.Detect(images);
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

  Detector::Worker worker_;
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

}  // namespace

int Detect(const std::vector<std::string>& arguments) {
  const ModelNames names = ModelOfFlags();
  CheckDetectFlags();
  CheckPictureFlags(arguments);
  const Registry registry = LayersOfFlag();
  const Detector detector(OpenDetector(names, registry), FLAGS_confidence);
  const Preprocessing preprocessing = PreprocessingOfFlags(detector.image_model());
  const std::vector<std::string> labels =
      LabelsOfFlags(detector.image_model().model(), detector.classes(), detector.classes_note());
  return AnswerPictures(
      arguments,
      {.mode = detector.image_model().color_mode(),
       .make_worker =
           [&] { return std::make_unique<DetectWorker>(detector, preprocessing, labels); },
       .columns = 7});
}

}  // namespace crema::tools
