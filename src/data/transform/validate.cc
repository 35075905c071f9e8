#include "data/transform/validate.h"

#include <cmath>
#include <utility>

#include "core/strings.h"
#include "crema.pb.h"

namespace crema {
namespace {

using Misfit = Transformer::Misfit;

// Collects the first invalid field below `path`.
class Checker {
 public:
  explicit Checker(std::string path) : path_(std::move(path)) {}

  void Require(bool fine, const std::string& field, float value, const std::string& rule) {
    if (fine || misfit_) return;
    misfit_ = Misfit{path_ + "." + field, StrCat(field, " is ", value, ", but ", rule)};
  }
  void Probability(const std::string& field, float value) {
    Require(value >= 0 && value <= 1, field, value, "must be a probability, 0 to 1");
  }
  void NotNegative(const std::string& field, float value) {
    Require(value >= 0 && std::isfinite(value), field, value, "must be 0 or more");
  }
  void Range(const std::string& lower, float low, const std::string& upper, float high) {
    NotNegative(lower, low);
    Require(high >= low && std::isfinite(high), upper, high,
            StrCat("must not be less than ", lower, ", ", low));
  }
  void Positive(const std::string& field, float value) {
    Require(value > 0 && std::isfinite(value), field, value, "must be above 0");
  }
  void AtMost(const std::string& field, float value, float most) {
    Require(value <= most, field, value, StrCat("must be at most ", most));
  }
  // Complains unless 0 < low <= high <= most.
  void PositiveRange(const std::string& lower, float low, const std::string& upper, float high,
                     float most) {
    Positive(lower, low);
    Range(lower, low, upper, high);
    AtMost(upper, high, most);
  }
  const std::optional<Misfit>& misfit() const { return misfit_; }

 private:
  const std::string path_;
  std::optional<Misfit> misfit_;
};

std::optional<Misfit> CheckDistortion(const DistortionParameter& param) {
  Checker check("transform_param.distort_param");
  check.Probability("brightness_prob", param.brightness_prob());
  check.NotNegative("brightness_delta", param.brightness_delta());
  check.Probability("contrast_prob", param.contrast_prob());
  check.Range("contrast_lower", param.contrast_lower(), "contrast_upper", param.contrast_upper());
  check.Probability("saturation_prob", param.saturation_prob());
  check.Range("saturation_lower", param.saturation_lower(), "saturation_upper",
              param.saturation_upper());
  check.Probability("hue_prob", param.hue_prob());
  check.NotNegative("hue_delta", param.hue_delta());
  check.Probability("random_order_prob", param.random_order_prob());
  return check.misfit();
}

std::optional<Misfit> CheckExpansion(const ExpansionParameter& param) {
  constexpr float kMost = 100;
  Checker check("transform_param.expand_param");
  check.Probability("prob", param.prob());
  check.Require(param.max_expand_ratio() >= 1 && param.max_expand_ratio() <= kMost,
                "max_expand_ratio", param.max_expand_ratio(), "must be 1 to 100");
  return check.misfit();
}

// For ResizedCrop and Erase, which are drawn by area and aspect ratio.
template <typename Message>
void CheckPart(const Message& param, const std::string& name, Checker* check) {
  constexpr float kMostAspect = 1000;
  check->PositiveRange(name + ".min_area", param.min_area(), name + ".max_area", param.max_area(),
                       1);
  check->PositiveRange(name + ".min_aspect", param.min_aspect(), name + ".max_aspect",
                       param.max_aspect(), kMostAspect);
}

void CheckGeometry(const AugmentParameter& param, Checker* check) {
  constexpr float kMost = 100;
  check->NotNegative("rotate", param.rotate());
  check->AtMost("rotate", param.rotate(), 180);
  check->PositiveRange("min_scale", param.min_scale(), "max_scale", param.max_scale(), kMost);
  check->Require(param.aspect() >= 1 && param.aspect() <= kMost, "aspect", param.aspect(),
                 StrCat("must be 1 to ", kMost));
}

void CheckColors(const AugmentParameter& param, Checker* check) {
  check->NotNegative("brightness", param.brightness());
  check->NotNegative("contrast", param.contrast());
  check->NotNegative("saturation", param.saturation());
  check->Require(param.hue() >= 0 && param.hue() <= 0.5F, "hue", param.hue(),
                 "must be 0 to 0.5, half of the circle");
  check->Probability("grayscale", param.grayscale());
}

void CheckMixes(const AugmentParameter& param, Checker* check) {
  constexpr uint32_t kMostClasses = 1 << 20;
  check->NotNegative("mixup", param.mixup());
  check->NotNegative("cutmix", param.cutmix());
  const auto classes = static_cast<float>(param.classes());
  const bool mixes = param.mixup() > 0 || param.cutmix() > 0;
  check->Require(!mixes || param.classes() > 0, "classes", classes,
                 "mixup and cutmix need the number of classes, as labels become a probability for "
                 "each");
  check->Require(param.classes() <= kMostClasses, "classes", classes,
                 StrCat("must be at most ", kMostClasses));
}

std::optional<Misfit> CheckResizing(const ResizeParameter& param) {
  constexpr uint32_t kMost = 1 << 16;
  Checker check("transform_param.resize_param");
  const auto side = [&](const std::string& field, uint32_t value) {
    check.Require(value >= 1 && value <= kMost, field, static_cast<float>(value),
                  "must be 1 to 65536 pixels");
  };
  side("height", param.height());
  side("width", param.width());
  const auto scale = [&](const std::string& field, uint32_t value) {
    check.Require(value == 0, field, static_cast<float>(value),
                  "is not used: FIT_SMALL_SIZE takes height and width; remove it");
  };
  scale("height_scale", param.height_scale());
  scale("width_scale", param.width_scale());
  return check.misfit();
}

}  // namespace

std::optional<Misfit> FindBadAugmentation(const TransformationParameter& param) {
  std::optional<Misfit> misfit;
  if (param.has_distort_param()) misfit = CheckDistortion(param.distort_param());
  if (!misfit && param.has_expand_param()) misfit = CheckExpansion(param.expand_param());
  if (!misfit && param.has_resize_param()) misfit = CheckResizing(param.resize_param());
  return misfit;
}

std::optional<Misfit> FindBadAugmentParam(const TransformationParameter& transform) {
  constexpr float kMostSigma = 100;
  const AugmentParameter& param = transform.augment_param();
  Checker check("transform_param.augment_param");
  CheckGeometry(param, &check);
  CheckPart(param.resized_crop(), "resized_crop", &check);
  CheckColors(param, &check);
  check.Probability("blur.probability", param.blur().probability());
  check.PositiveRange("blur.min_sigma", param.blur().min_sigma(), "blur.max_sigma",
                      param.blur().max_sigma(), kMostSigma);
  check.Probability("erase.probability", param.erase().probability());
  CheckPart(param.erase(), "erase", &check);
  CheckMixes(param, &check);
  if (check.misfit() || !param.has_resized_crop()) return check.misfit();
  const std::string field = "transform_param.augment_param.resized_crop";
  if (transform.crop_size() == 0 && transform.crop_h() == 0) {
    return Misfit{field,
                  "resized_crop resizes to the size of the crop, and there is none: add crop_size, "
                  "or crop_h and crop_w, to transform_param"};
  }
  if (transform.has_mean_file()) {
    return Misfit{field,
                  "resized_crop leaves no pixel in its place, so a mean image (mean_file) cannot "
                  "be subtracted: give mean_value"};
  }
  return std::nullopt;
}

std::optional<Misfit> FindOpenCvStep(const AugmentParameter& param) {
  const AugmentParameter& unset = AugmentParameter::default_instance();
  const auto misfit = [](const std::string& step) {
    return Misfit{"transform_param.augment_param." + step,
                  step + " needs OpenCV, which this build is without"};
  };
  if (param.rotate() != unset.rotate()) return misfit("rotate");
  if (param.min_scale() != unset.min_scale()) return misfit("min_scale");
  if (param.max_scale() != unset.max_scale()) return misfit("max_scale");
  if (param.aspect() != unset.aspect()) return misfit("aspect");
  if (param.has_resized_crop()) return misfit("resized_crop");
  if (param.has_blur()) return misfit("blur");
  return std::nullopt;
}

std::optional<Misfit> FindBadSampler(const AnnotatedDataParameter& param) {
  constexpr uint32_t kMostTrials = 1000000;
  for (int i = 0; i < param.batch_sampler_size(); ++i) {
    const BatchSampler& batch_sampler = param.batch_sampler(i);
    const Sampler& sampler = batch_sampler.sampler();
    Checker check(StrCat("annotated_data_param.batch_sampler[", i, "]"));
    check.Require(sampler.min_scale() > 0, "sampler.min_scale", sampler.min_scale(),
                  "must be above 0");
    check.Range("sampler.min_scale", sampler.min_scale(), "sampler.max_scale", sampler.max_scale());
    check.Require(sampler.max_scale() <= 1, "sampler.max_scale", sampler.max_scale(),
                  "must be at most 1");
    check.Require(sampler.min_aspect_ratio() > 0, "sampler.min_aspect_ratio",
                  sampler.min_aspect_ratio(), "must be above 0");
    check.Range("sampler.min_aspect_ratio", sampler.min_aspect_ratio(), "sampler.max_aspect_ratio",
                sampler.max_aspect_ratio());
    check.Require(batch_sampler.max_trials() <= kMostTrials, "max_trials",
                  static_cast<float>(batch_sampler.max_trials()), "must be at most 1000000");
    if (check.misfit()) return check.misfit();
  }
  return std::nullopt;
}

}  // namespace crema
