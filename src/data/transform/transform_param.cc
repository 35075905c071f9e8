// Validates transform_param and reads its mean image.
#include <algorithm>
#include <cmath>
#include <string_view>
#include <vector>

#include "core/error.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "data/transform/transformer.h"
#include "data/transform/validate.h"
#include "format/data_file.h"

namespace crema {
namespace {

[[noreturn]] void FailTransform(ErrorCode code, const std::string& layer, const std::string& field,
                                std::string message) {
  Where where{.layer = layer};
  where.field = "transform_param." + field;
  Fail(code, std::move(message), std::move(where));
}

// Fields of forks that are supported, or that do not change the input of the net.
bool IsAllowed(const std::string& field, TransformSteps steps) {
  constexpr std::string_view kAlways[] = {"crop_h", "crop_w", "display", "use_gpu_transform",
                                          "random_seed"};
  constexpr std::string_view kOfBoxes[] = {"resize_param", "noise_param", "emit_constraint",
                                           "distort_param", "expand_param"};
  return std::ranges::find(kAlways, field) != std::end(kAlways) ||
         (steps != TransformSteps::kPlain && field == "augment_param") ||
         (steps == TransformSteps::kAnnotated &&
          std::ranges::find(kOfBoxes, field) != std::end(kOfBoxes));
}

void ValidateCrop(const TransformationParameter& param, const std::string& layer) {
  if ((param.crop_h() > 0) != (param.crop_w() > 0)) {
    FailTransform(ErrorCode::kInvalidArgument, layer, param.crop_h() > 0 ? "crop_h" : "crop_w",
                  "crop_h and crop_w go together: give both, or crop_size for a square");
  }
  if (param.crop_size() > 0 && param.crop_h() > 0) {
    FailTransform(ErrorCode::kInvalidArgument, layer, "crop_size",
                  "crop_size and crop_h, crop_w exclude each other: remove one");
  }
}

void ValidateAugmentation(const TransformationParameter& param, const std::string& layer) {
  const auto complain = [&](ErrorCode code, const std::optional<Transformer::Misfit>& misfit) {
    if (!misfit) return;
    Where where{.layer = layer};
    where.field = misfit->field;
    Fail(code, misfit->message, std::move(where));
  };
  complain(ErrorCode::kInvalidArgument, FindBadAugmentParam(param));
#ifndef CREMA_HAVE_OPENCV
  complain(ErrorCode::kUnsupported, FindOpenCvStep(param.augment_param()));
#endif
}

// Shape of the stored image; empty if the blob is not an image.
std::vector<int64_t> ImageShape(const BlobProto& blob) {
  std::vector<int64_t> dims;
  if (blob.has_num() || blob.has_channels() || blob.has_height() || blob.has_width()) {
    dims = {blob.num(), blob.channels(), blob.height(), blob.width()};
  } else {
    dims.assign(blob.shape().dim().begin(), blob.shape().dim().end());
  }
  if (dims.size() == 4 && dims[0] == 1) dims.erase(dims.begin());
  if (dims.size() != 3) dims.clear();
  for (const int64_t dim : dims) {
    if (dim <= 0) return {};
  }
  return dims;
}

}  // namespace

void ValidateTransform(const TransformationParameter& param, const std::string& layer,
                       TransformSteps steps) {
  if (param.has_mean_file() && param.mean_value_size() > 0) {
    FailTransform(ErrorCode::kInvalidArgument, layer, "mean_value",
                  "mean_file and mean_value exclude each other: remove one");
  }
  if (param.force_color() && param.force_gray()) {
    FailTransform(ErrorCode::kInvalidArgument, layer, "force_gray",
                  "force_color and force_gray exclude each other: remove one");
  }
  if (!std::isfinite(param.scale())) {
    FailTransform(ErrorCode::kInvalidArgument, layer, "scale",
                  "scale is not a finite number of 32 bits");
  }
  ValidateCrop(param, layer);
  std::vector<const google::protobuf::FieldDescriptor*> fields;
  param.GetReflection()->ListFields(param, &fields);
  constexpr int kLastOfCaffe = TransformationParameter::kForceGrayFieldNumber;
  for (const auto* field : fields) {
    if (field->number() <= kLastOfCaffe || IsAllowed(field->name(), steps)) continue;
    const bool of_fork = field->number() != TransformationParameter::kAugmentParamFieldNumber;
    FailTransform(ErrorCode::kUnsupported, layer, field->name(),
                  StrCat("'", field->name(), "' is ",
                         of_fork ? "a transformation of a Caffe fork, which" : "something that",
                         " a layer of this type cannot do: remove it"));
  }
  if (param.has_augment_param()) ValidateAugmentation(param, layer);
}

MeanImage ReadMeanImage(const std::string& path) {
  BlobProto blob;
  if (!blob.ParseFromString(ReadDataFile(path, "the mean file"))) {
    Fail(ErrorCode::kDataLoss,
         StrCat("'", path, "' is not a mean file (a BlobProto), or it is damaged"));
  }
  const std::vector<int64_t> dims = ImageShape(blob);
  if (dims.empty()) {
    Fail(ErrorCode::kDataLoss,
         StrCat("'", path,
                "' does not hold one mean image (1 x channels x height x width); give the "
                "file that compute_image_mean writes"));
  }
  MeanImage mean{.shape = Shape(dims), .values = {}};
  if (blob.double_data_size() > 0) {
    mean.values.assign(blob.double_data().begin(), blob.double_data().end());
  } else {
    mean.values.assign(blob.data().begin(), blob.data().end());
  }
  if (static_cast<int64_t>(mean.values.size()) != mean.shape.count()) {
    Fail(ErrorCode::kDataLoss, StrCat("the mean file '", path, "' says ", ToString(mean.shape),
                                      " but holds ", mean.values.size(), " values"));
  }
  return mean;
}

}  // namespace crema
