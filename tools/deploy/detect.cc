#include <cmath>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <set>

#include "common/gpu_flag.h"
#include "common/json.h"
#include "common/plan_flags.h"
#include "common/tool.h"
#include "common/weights_flags.h"
#include "core/strings.h"
#include "data/image/draw_boxes.h"
#include "deploy/actions.h"
#include "deploy/options.h"
#include "format/file.h"
#include "serving/detector.h"

DEFINE_string(tail, "",
              "detect: prototxt with layers to put behind those of --model, such as PriorBox and "
              "DetectionOutput for a net that ends in raw boxes and scores");
DEFINE_double(confidence, 0.6, "detect: scores must exceed it");
DEFINE_double(nms, 0.3,
              "detect: of two boxes that overlap by more, the worse goes; not given: as the net "
              "says");
DEFINE_bool(rgb, false, "detect: the net takes red, green, blue instead of blue, green, red");
DEFINE_string(draw, "",
              "detect: picture to write with the boxes drawn in; a folder for several images");

namespace crema::tools {
namespace {

namespace fs = std::filesystem;

DetectorOptions OptionsOf() {
  DetectorOptions options;
  const auto check = [](const char* flag, double value) {
    if (value >= 0 && value <= 1) return;
    Fail(ErrorCode::kInvalidArgument, StrCat("--", flag, " is ", value, ", expected 0 to 1"));
  };
  check("confidence", FLAGS_confidence);
  check("nms", FLAGS_nms);
  options.confidence = FLAGS_confidence;
  if (!gflags::GetCommandLineFlagInfoOrDie("nms").is_default) options.nms = FLAGS_nms;
  options.plan = PlanOptionsOfFlags();
  options.device = DeviceOfFlag();
  return options;
}

// One name for each class, background included.
std::vector<std::string> ClassNames(const Detector& detector) {
  if (FLAGS_labels.empty()) return {};
  std::vector<std::string> names = ReadLines(FLAGS_labels);
  if (static_cast<int>(names.size()) != detector.classes()) {
    Fail(ErrorCode::kInvalidArgument,
         StrCat(FLAGS_labels, " has ", names.size(), " labels, but the net has ",
                detector.classes(), " classes, background included"));
  }
  return names;
}

// Where the pictures go, by image; empty without --draw.
std::vector<std::string> PicturesOf(const std::vector<std::string>& images) {
  if (FLAGS_draw.empty()) return {};
  std::error_code error;
  if (images.size() == 1 && !fs::is_directory(FLAGS_draw, error)) return {FLAGS_draw};
  fs::create_directories(FLAGS_draw, error);
  if (error || !fs::is_directory(FLAGS_draw)) {
    Fail(ErrorCode::kInvalidArgument,
         StrCat("--draw: ", FLAGS_draw, " must be a folder for several images"));
  }
  std::vector<std::string> pictures;
  std::set<std::string> taken;
  for (const std::string& image : images) {
    pictures.push_back((fs::path(FLAGS_draw) / fs::path(image).filename()).string());
    if (taken.insert(pictures.back()).second) continue;
    Fail(ErrorCode::kInvalidArgument, StrCat("--draw: two images would become ", pictures.back()));
  }
  return pictures;
}

class Reporter {
 public:
  Reporter(const Detector& detector, const Preprocessing& preprocessing,
           const std::vector<std::string>& images)
      : worker_(detector, 1),
        preprocessing_(preprocessing),
        names_(ClassNames(detector)),
        images_(images),
        pictures_(PicturesOf(images)) {}

  std::string Answer(const std::string& bytes, const std::string& image) {
    const std::vector<FoundBox> found = worker_.Detect(bytes, image, preprocessing_);
    if (!pictures_.empty()) Draw(bytes, image, found);
    return FLAGS_json ? Json(image, found) : Text(image, found);
  }

 private:
  std::string NameOf(int label) const {
    return names_.empty() ? std::to_string(label) : names_[static_cast<size_t>(label)];
  }

  static std::string Short(double score, int decimals) {
    char text[32];
    std::snprintf(text, sizeof(text), "%.*f", decimals, score);
    return text;
  }

  std::string Text(const std::string& image, const std::vector<FoundBox>& found) const {
    std::string text = StrCat(image, ": ", found.size(), found.size() == 1 ? " box" : " boxes");
    for (const FoundBox& f : found) {
      char line[160];
      std::snprintf(line, sizeof(line), "%s %.1f %.1f %.1f %.1f", Short(f.score, 4).c_str(),
                    f.box.xmin, f.box.ymin, f.box.xmax, f.box.ymax);
      text += StrCat("\n  ", NameOf(f.label), " ", line);
    }
    return text;
  }

  std::string Json(const std::string& image, const std::vector<FoundBox>& found) const {
    std::string text = StrCat("{\"image\": ", JsonString(image), ", \"detections\": [");
    for (size_t i = 0; i < found.size(); ++i) {
      const FoundBox& f = found[i];
      text += StrCat(i == 0 ? "" : ", ", "{\"label\": ", JsonString(NameOf(f.label)),
                     ", \"index\": ", f.label, ", \"score\": ", JsonNumber(f.score), ", \"box\": [",
                     JsonNumber(f.box.xmin), ", ", JsonNumber(f.box.ymin), ", ",
                     JsonNumber(f.box.xmax), ", ", JsonNumber(f.box.ymax), "]}");
    }
    return text + "]}";
  }

  void Draw(const std::string& bytes, const std::string& image,
            const std::vector<FoundBox>& found) const {
    std::vector<CaptionedBox> boxes;
    for (const FoundBox& f : found) {
      boxes.push_back({f.box, StrCat(NameOf(f.label), " ", Short(f.score, 2)), f.label});
    }
    for (size_t i = 0; i < images_.size(); ++i) {
      if (images_[i] != image) continue;
      WriteFileAtomically(pictures_[i], DrawBoxes(bytes, image, boxes, pictures_[i]));
    }
  }

  Detector::Worker worker_;
  const Preprocessing& preprocessing_;
  const std::vector<std::string> names_;
  const std::vector<std::string>& images_;
  const std::vector<std::string> pictures_;
};

}  // namespace

int Detect(const std::vector<std::string>& arguments) {
  CheckCommonFlags();
  const DetectorOptions options = OptionsOf();
  const std::vector<std::string> images = ImagesOf(arguments);
  NetFile net = ReadNet(FLAGS_model);
  if (!FLAGS_tail.empty()) net = WithTail(std::move(net), ReadNet(FLAGS_tail));
  const WeightsFiles weights = WeightsOfFlags({FLAGS_weights}, MissingLayers::kError);
  const Registry registry = BuiltinRegistry();
  const Detector detector(net, weights, options, registry, ToolLog());
  const Preprocessing preprocessing{.invert = FLAGS_invert,
                                    .scale = static_cast<float>(FLAGS_scale),
                                    .mean = MeanNumbers(detector.channels()),
                                    .rgb = FLAGS_rgb};
  return PrintAnswers(AnswerAll(images, [&]() -> Answerer {
    auto reporter = std::make_shared<Reporter>(detector, preprocessing, images);
    return [reporter](const std::string& bytes, const std::string& image) {
      return reporter->Answer(bytes, image);
    };
  }));
}

}  // namespace crema::tools
