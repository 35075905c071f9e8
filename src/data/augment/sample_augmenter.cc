#include "data/augment/sample_augmenter.h"

#include <algorithm>
#include <cmath>

#include "crema.pb.h"
#include "data/augment/canvas.h"
#include "data/augment/jitter.h"
#include "data/image/image.h"

namespace crema {

// Stream numbers. Changing one changes the random numbers of existing runs.
enum class SampleAugmenter::Step : uint64_t {
  kTurn = 1,
  kCrop = 2,
  kBrightness = 3,
  kContrast = 4,
  kSaturation = 5,
  kHue = 6,
  kGrayscale = 7,
  kBlur = 8,
  kErase = 9,
};

namespace {

double AsDouble(float value) { return static_cast<double>(value); }

bool Turns(const AugmentParameter& param) {
  return param.rotate() != 0 || param.min_scale() != 1 || param.max_scale() != 1 ||
         param.aspect() != 1;
}

// Draws from max(0, 1 - amount) to 1 + amount.
double DrawFactor(float amount, Draws draws) {
  return draws.Uniform(std::max(0.0, 1 - AsDouble(amount)), 1 + AsDouble(amount));
}

}  // namespace

std::shared_ptr<const SampleAugmenter> SampleAugmenter::Make(const Transformer& transformer,
                                                             const Options& options) {
  const TransformationParameter& transform = transformer.param();
  if (!transform.has_augment_param()) return nullptr;
  const AugmentParameter& param = transform.augment_param();
  const bool recolors = param.brightness() > 0 || param.contrast() > 0 || param.saturation() > 0 ||
                        param.hue() > 0 || param.grayscale() > 0;
  const bool trains = Turns(param) || recolors || param.has_blur() || param.has_erase();
  const bool any = param.has_resized_crop() || (transformer.phase() == TRAIN && trains);
  if (!any) return nullptr;
  return std::shared_ptr<const SampleAugmenter>(new SampleAugmenter(transformer, options));
}

SampleAugmenter::SampleAugmenter(const Transformer& transformer, const Options& options)
    : param_(transformer.param().augment_param()),
      phase_(transformer.phase()),
      warps_(Turns(param_)),
      crop_height_(transformer.crop_height()),
      crop_width_(transformer.crop_width()),
      seed_(options.seed),
      stream_(MixBits(options.layer_id, HashName("augment_param"))),
      constraint_(transformer.param().emit_constraint()) {
  for (int c = 0; c < options.channels; ++c) {
    const float mean = std::clamp(transformer.ChannelMean(c), 0.F, 255.F);
    fill_.push_back(static_cast<uint8_t>(std::lround(mean)));
  }
}

Draws SampleAugmenter::DrawsOf(Step step, uint64_t ordinal) const {
  return Draws(RandomStream(seed_, MixBits(stream_, static_cast<uint64_t>(step)), ordinal));
}

bool SampleAugmenter::Changes(const Shape& image) const {
  return phase_ == TRAIN || image[1] < crop_height_ || image[2] < crop_width_;
}

void SampleAugmenter::Apply(uint64_t ordinal, Image* image,
                            std::vector<AnnotatedBox>* objects) const {
  if (phase_ != TRAIN) return Cover(image);  // boxes are in units of the image
  if (warps_) WarpAll(ordinal, image, objects);
  if (param_.has_resized_crop()) CropAll(ordinal, image, objects);
  ApplyToPart(ordinal, image);
}

std::optional<PixelRect> SampleAugmenter::FirstPart(uint64_t ordinal, int height, int width) const {
  if (phase_ != TRAIN || warps_ || !param_.has_resized_crop()) return std::nullopt;
  return DrawPart(ordinal, height, width);
}

void SampleAugmenter::ApplyToPart(uint64_t ordinal, Image* part) const {
  if (param_.has_resized_crop()) ResizeToCrop(part);
  Recolor(ordinal, part);
  BlurSome(ordinal, part);
  EraseSome(ordinal, part);
}

Warp SampleAugmenter::DrawWarp(uint64_t ordinal) const {
  Draws draws = DrawsOf(Step::kTurn, ordinal);
  const double degrees = draws.Uniform(-AsDouble(param_.rotate()), AsDouble(param_.rotate()));
  const double scale = draws.Uniform(AsDouble(param_.min_scale()), AsDouble(param_.max_scale()));
  const double most = std::log(AsDouble(param_.aspect()));
  const double stretch = std::exp(draws.Uniform(-most, most) / 2);
  return {.degrees = degrees, .wide = scale * stretch, .high = scale / stretch};
}

std::vector<AnnotatedBox> SampleAugmenter::Keep(const std::vector<AnnotatedBox>& objects,
                                                const Box& window, int height, int width) const {
  std::vector<AnnotatedBox> kept = ProjectObjects(objects, window, &constraint_);
  std::erase_if(kept, [&](const AnnotatedBox& object) {  // smaller than a pixel
    return object.box.width() * width < 1 || object.box.height() * height < 1;
  });
  return kept;
}

void SampleAugmenter::WarpAll(uint64_t ordinal, Image* image,
                              std::vector<AnnotatedBox>* objects) const {
  const Warp warp = DrawWarp(ordinal);
  if (warp == Warp{}) return;
  *image = WarpImage(warp, *image, fill_);
  if (objects == nullptr) return;
  for (AnnotatedBox& object : *objects) {
    object.box = WarpBox(warp, object.box, image->height, image->width);
  }
  *objects = Keep(*objects, kWholeImage, image->height, image->width);
}

PixelRect SampleAugmenter::DrawPart(uint64_t ordinal, int height, int width) const {
  Draws draws = DrawsOf(Step::kCrop, ordinal);
  return DrawResizedCrop(param_.resized_crop(), height, width, draws);
}

void SampleAugmenter::CropAll(uint64_t ordinal, Image* image,
                              std::vector<AnnotatedBox>* objects) const {
  const PixelRect part = DrawPart(ordinal, image->height, image->width);
  if (objects != nullptr) {
    *objects = Keep(*objects, BoxOf(part, image->height, image->width), part.height, part.width);
  }
  *image = Crop(*image, part);
}

// Downscales by area, so that fine patterns become grey instead of aliasing.
void SampleAugmenter::ResizeToCrop(Image* image) const {
  if (image->height == crop_height_ && image->width == crop_width_) return;
  const bool shrinks = image->height >= crop_height_ && image->width >= crop_width_;
  *image = Resize(*image, crop_height_, crop_width_,
                  shrinks ? Interpolation::kArea : Interpolation::kLinear);
}

// The centre crop follows.
void SampleAugmenter::Cover(Image* image) const {
  const double factor = std::max(static_cast<double>(crop_height_) / image->height,
                                 static_cast<double>(crop_width_) / image->width);
  if (factor <= 1) return;
  const auto side = [factor](int length, int least) {
    return std::max(least, static_cast<int>(std::lround(length * factor)));
  };
  *image = Resize(*image, side(image->height, crop_height_), side(image->width, crop_width_));
}

void SampleAugmenter::Recolor(uint64_t ordinal, Image* image) const {
  if (param_.brightness() > 0) {
    ScaleBrightness(DrawFactor(param_.brightness(), DrawsOf(Step::kBrightness, ordinal)), image);
  }
  if (param_.contrast() > 0) {
    ScaleContrast(DrawFactor(param_.contrast(), DrawsOf(Step::kContrast, ordinal)), image);
  }
  if (param_.saturation() > 0) {
    ScaleSaturation(DrawFactor(param_.saturation(), DrawsOf(Step::kSaturation, ordinal)), image);
  }
  const double hue = AsDouble(param_.hue());
  if (hue > 0) RotateHue(DrawsOf(Step::kHue, ordinal).Uniform(-hue, hue), image);
  if (DrawsOf(Step::kGrayscale, ordinal).Chance(AsDouble(param_.grayscale()))) RemoveColor(image);
}

void SampleAugmenter::BlurSome(uint64_t ordinal, Image* image) const {
  if (!param_.has_blur()) return;
  const AugmentParameter::Blur& blur = param_.blur();
  Draws draws = DrawsOf(Step::kBlur, ordinal);
  if (!draws.Chance(AsDouble(blur.probability()))) return;
  Blur(draws.Uniform(AsDouble(blur.min_sigma()), AsDouble(blur.max_sigma())), image);
}

void SampleAugmenter::EraseSome(uint64_t ordinal, Image* image) const {
  if (!param_.has_erase()) return;
  Draws draws = DrawsOf(Step::kErase, ordinal);
  if (!draws.Chance(AsDouble(param_.erase().probability()))) return;
  const auto part = DrawErased(param_.erase(), image->height, image->width, draws);
  if (part) FillPart(*part, fill_, image);
}

}  // namespace crema
