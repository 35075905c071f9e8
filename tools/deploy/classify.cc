// deploy classify: prints the best classes of each image.
#include <algorithm>
#include <memory>

#include "common/json.h"
#include "common/plugin_flag.h"
#include "common/tool.h"
#include "core/strings.h"
#include "data/image/draw_boxes.h"
#include "deploy/actions.h"
#include "deploy/answers.h"
#include "deploy/drawings.h"
#include "deploy/options.h"
#include "inference/classifier.h"

DEFINE_int32(top, 5, "[Output @classify] number of classes to print, best first");

namespace crema::tools {
namespace {

// Enlarges a small picture, so that the text of the bars is readable and does not cover it.
void Enlarge(Image* image) {
  constexpr int kLeast = 256;
  const int side = std::max(image->width, image->height);
  if (side == 0 || side >= kLeast) return;
  const int factor = (kLeast + side - 1) / side;
  Image large{.channels = image->channels,
              .height = image->height * factor,
              .width = image->width * factor,
              .pixels = {}};
  large.pixels.reserve(image->pixels.size() * static_cast<size_t>(factor) *
                       static_cast<size_t>(factor));
  for (int y = 0; y < image->channels * large.height; ++y) {
    const uint8_t* line = image->pixels.data() + static_cast<ptrdiff_t>(y / factor) * image->width;
    for (int x = 0; x < large.width; ++x) large.pixels.push_back(line[x / factor]);
  }
  *image = std::move(large);
}

class ClassifyWorker final : public PictureWorker {
 public:
  ClassifyWorker(const Classifier& classifier, const Preprocessing& preprocessing,
                 const std::vector<std::string>& labels)
      : classifier_(classifier), worker_(classifier, preprocessing), labels_(labels) {}

  std::vector<Answer> Run(std::span<const Image> images,
                          std::span<const InputPicture> pictures) override {
    const auto classes = static_cast<size_t>(classifier_.classes());
    std::vector<Answer> answers;
    const std::span<const float> scores = worker_.Scores(images);
    for (size_t i = 0; i < images.size(); ++i) {
      const std::span<const float> own = scores.subspan(i * classes, classes);
      answers.push_back(AnswerOf(pictures[i], own));
    }
    return answers;
  }

 private:
  Answer AnswerOf(const InputPicture& picture, std::span<const float> scores) const {
    const std::vector<Prediction> best = BestFirst(scores, static_cast<size_t>(FLAGS_top));
    std::vector<CaptionedBar> bars;
    for (const Prediction& p : best) {
      bars.push_back({StrCat(LabelOf(labels_, p.index), " ", Fixed(p.score, 3)), p.score});
    }
    return {.text = FLAGS_json ? Json(picture, best) : Text(picture, best),
            .draw =
                [bars](Image* image) {
                  Enlarge(image);
                  DrawBars(bars, image);
                },
            .rows = {{scores.begin(), scores.end()}}};
  }

  std::string Text(const InputPicture& picture, const std::vector<Prediction>& best) const {
    std::string text = picture.Title() + ":";
    for (size_t k = 0; k < best.size(); ++k) {
      text += StrCat(k == 0 ? " " : ", ", LabelOf(labels_, best[k].index), " ",
                     Fixed(best[k].score, 4));
    }
    return text;
  }

  std::string Json(const InputPicture& picture, const std::vector<Prediction>& best) const {
    std::string text = StrCat("{", picture.JsonFields(), ", \"predictions\": [");
    for (size_t k = 0; k < best.size(); ++k) {
      text +=
          StrCat(k == 0 ? "" : ", ", "{\"label\": ", JsonString(LabelOf(labels_, best[k].index)),
                 ", \"index\": ", best[k].index, ", \"score\": ", JsonNumber(best[k].score), "}");
    }
    return text + "]}";
  }

  const Classifier& classifier_;
  Classifier::Worker worker_;
  const std::vector<std::string>& labels_;
};

}  // namespace

int Classify(const std::vector<std::string>& arguments) {
  if (FLAGS_top < 1)
    Fail(ErrorCode::kInvalidArgument, StrCat("--top is ", FLAGS_top, "; use 1 or more"));
  const ModelNames names = ModelOfFlags();
  CheckPictureFlags(arguments);
  const Registry registry = LayersOfFlag();
  const Classifier classifier(OpenModel(names, registry, ModelOptionsOfFlags()), FLAGS_output);
  const Preprocessing preprocessing = PreprocessingOfFlags(classifier.image_model());
  const std::vector<std::string> labels =
      LabelsOfFlags(classifier.image_model().model(), classifier.classes(), " classes");
  return AnswerPictures(
      arguments,
      {.mode = classifier.image_model().color_mode(),
       .make_worker =
           [&] { return std::make_unique<ClassifyWorker>(classifier, preprocessing, labels); },
       .columns = static_cast<size_t>(classifier.classes()),
       .row_a_picture = true});
}

}  // namespace crema::tools
