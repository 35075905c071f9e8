#include <filesystem>
#include <memory>
#include <set>

#include "common/json.h"
#include "common/output_file.h"
#include "common/plugin_flag.h"
#include "common/tool.h"
#include "core/strings.h"
#include "data/image/draw_boxes.h"
#include "data/image/png.h"
#include "deploy/actions.h"
#include "deploy/answers.h"
#include "deploy/drawings.h"
#include "deploy/options.h"
#include "format/file.h"
#include "inference/segmenter.h"

DECLARE_string(draw);
DEFINE_string(masks, "",
              "[Output FOLDER @segment] folder for one .png an image, of its size; pixel values "
              "are class numbers, "
              "shown in the colors of Pascal VOC");

namespace crema::tools {
namespace {

namespace fs = std::filesystem;

// Encodes an indexed picture: the pixels are classes, the palette has their colors.
std::string EncodeMask(const Image& classes) {
  Picture mask{.width = classes.width,
               .height = classes.height,
               .channels = 1,
               .pixels = classes.pixels,
               .palette = {}};
  for (int i = 0; i < 256; ++i) mask.palette.push_back(ClassColor(i));
  return EncodePng(mask);
}

// Compares paths that need not exist.
bool IsSame(const fs::path& a, const fs::path& b) {
  return fs::weakly_canonical(a / "x") == fs::weakly_canonical(b / "x");
}

void RefuseToDrawOver(const fs::path& masks) {
  if (FLAGS_draw.empty() || !IsSame(FLAGS_draw, masks)) return;
  Fail(ErrorCode::kInvalidArgument,
       StrCat("--masks and --draw write files of the same names; both are ", masks.string()));
}

// --masks: returns the file of each source; frames of videos get a number.
std::vector<std::string> MaskPaths(const std::vector<PictureSource>& sources) {
  std::vector<std::string> paths;
  if (FLAGS_masks.empty()) return paths;
  RefuseToDrawOver(FLAGS_masks);
  std::error_code error;
  fs::create_directories(FLAGS_masks, error);
  if (error || !fs::is_directory(FLAGS_masks)) {
    Fail(ErrorCode::kInvalidArgument, StrCat("--masks: ", FLAGS_masks, " must be a folder"));
  }
  const ProtectedFiles inputs(FilesOf(sources));
  std::set<std::string> taken;
  for (const PictureSource& source : sources) {
    const std::string stem = source.name == "-" ? "stdin" : fs::path(source.name).stem().string();
    paths.push_back((fs::path(FLAGS_masks) / (stem + ".png")).string());
    inputs.RefuseToReplace("masks", paths.back());
    RefuseToDrawOver(paths.back());
    if (taken.insert(paths.back()).second) continue;
    Fail(ErrorCode::kInvalidArgument, StrCat("--masks: two images would become ", paths.back()));
  }
  return paths;
}

class SegmentWorker final : public PictureWorker {
 public:
  SegmentWorker(const Segmenter& segmenter, const Preprocessing& preprocessing,
                const std::vector<std::string>& labels, const std::vector<std::string>& masks)
      : segmenter_(segmenter), worker_(segmenter, preprocessing), labels_(labels), masks_(masks) {}

  std::vector<Answer> Run(std::span<const Image> images,
                          std::span<const InputPicture> pictures) override {
    std::vector<Image> classes = worker_.Segment(images);
    std::vector<Answer> answers;
    for (size_t i = 0; i < images.size(); ++i) {
      const InputPicture& picture = pictures[i];
      if (!masks_.empty()) {
        const std::string& path = masks_[picture.source];
        WriteFileAtomically(
            picture.is_frame() ? FramePath(path, picture.frame, ".png") : path,
            EncodeMask(ResizeClasses(classes[i], images[i].height, images[i].width)));
      }
      answers.push_back(AnswerOf(picture, std::move(classes[i])));
    }
    return answers;
  }

 private:
  Answer AnswerOf(const InputPicture& picture, Image classes) const {
    const std::vector<ClassShare> shares = SharesOf(classes, segmenter_.classes());
    std::string text =
        FLAGS_json ? StrCat("{", picture.JsonFields(), ", \"classes\": [") : picture.Title() + ":";
    for (size_t i = 0; i < shares.size(); ++i) {
      const std::string label = LabelOf(labels_, shares[i].index);
      text += i == 0 ? FLAGS_json ? "" : " " : ", ";
      text += FLAGS_json
                  ? StrCat("{\"label\": ", JsonString(label), ", \"index\": ", shares[i].index,
                           ", \"share\": ", JsonNumber(shares[i].share), "}")
                  : StrCat(label, " ", Fixed(shares[i].share, 4));
    }
    if (FLAGS_json) text += "]}";
    return {.text = text, .draw = [this, classes = std::move(classes), shares](Image* image) {
              OverlayClasses(classes, image);
              DrawBars(Legend(shares), image);
            }};
  }

  // Lists each class that occurs, except the background, with its color and share.
  std::vector<CaptionedBar> Legend(const std::vector<ClassShare>& shares) const {
    std::vector<CaptionedBar> bars;
    for (const ClassShare& s : shares) {
      if (s.index == 0) continue;
      bars.push_back({StrCat(LabelOf(labels_, s.index), " ", Fixed(100 * s.share, 1), " %"),
                      s.share, ClassColor(s.index)});
    }
    return bars;
  }

  const Segmenter& segmenter_;
  Segmenter::Worker worker_;
  const std::vector<std::string>& labels_;
  const std::vector<std::string>& masks_;
};

}  // namespace

int Segment(const std::vector<std::string>& arguments) {
  const ModelNames names = ModelOfFlags();
  CheckPictureFlags(arguments);
  const std::vector<std::string> masks = MaskPaths(PictureSources(arguments));
  const Registry registry = LayersOfFlag();
  const Segmenter segmenter(OpenModel(names, registry, ModelOptionsOfFlags()), FLAGS_output);
  const Preprocessing preprocessing = PreprocessingOfFlags(segmenter.image_model());
  const std::vector<std::string> labels =
      LabelsOfFlags(segmenter.image_model().model(), segmenter.classes(), " classes");
  return AnswerPictures(
      arguments, {.mode = segmenter.image_model().color_mode(), .make_worker = [&] {
                    return std::make_unique<SegmentWorker>(segmenter, preprocessing, labels, masks);
                  }});
}

}  // namespace crema::tools
