#include "layers/input/image_form.h"

#include "core/strings.h"
#include "crema.pb.h"
#include "data/transform/placement_bytes.h"
#include "layers/input/mixing.h"
#include "layers/input/pipeline.h"
#include "layers/input/pixels_to_float.h"

namespace crema {

LayerInfo ImageForm::InfoOf(const InferContext& context, int64_t batch, const Shape& sample,
                            const Shape& labels) const {
  const Shape floats{batch, sample[0], sample[1], sample[2]};
  const Shape pixels{batch, sample[1], sample[2], sample[0]};
  LayerInfo info;
  info.outputs.push_back(bytes ? BlobSpec{pixels, DType::kU8} : BlobSpec{floats, context.dtype});
  if (TopsOf(context) > 1) info.outputs.push_back({labels, context.dtype});
  if (places) info.outputs.push_back({Shape{batch, kPlacementBytes}, DType::kU8});
  return info;
}

BatchFiller::Options ImageForm::BatchFillerOptions(std::span<const BlobSpec> outputs,
                                                   const TransformationParameter& transform,
                                                   uint64_t seed, const std::string& layer) const {
  BatchFiller::Options options = crema::BatchFillerOptions(
      outputs.first(outputs.size() - (places ? 1 : 0)), transform, seed, layer);
  options.uploads = uploads;
  options.places = places;
  return options;
}

ImageForm WrittenForm(const LayerParameter& param) { return {.bytes = GivesBytes(param)}; }

ImageForm UploadedForm(const LayerParameter& param) {
  const TransformationParameter& transform = param.transform_param();
  const bool crops = transform.crop_size() > 0 || transform.crop_h() > 0;
  return {.bytes = true,
          .uploads = true,
          .places = transform.mirror() || (transform.has_mean_file() && crops)};
}

std::string WhyNotUploaded(const LayerParameter& param, Phase phase) {
  if (GivesBytes(param)) return "the net converts its bytes itself, pipeline_param { output: U8 }";
  if (phase == TRAIN && Mixes(param)) return "mixup and cutmix mix floating-point values";
  if (param.transform_param().mean_value_size() > PixelsToFloat::kMostMeansOnGpu) {
    return StrCat("a GPU takes at most ", PixelsToFloat::kMostMeansOnGpu, " mean_value");
  }
  return "";
}

ByteParts PartsAfterSource(const LayerParameter& param) {
  const TransformationParameter& transform = param.transform_param();
  ByteParts parts;
  parts.places = UploadedForm(param).places;
  parts.numbers.set_type("PixelsToFloat");
  TransformationParameter* numbers = parts.numbers.mutable_transform_param();
  *numbers->mutable_mean_value() = transform.mean_value();
  if (transform.has_mean_file()) numbers->set_mean_file(transform.mean_file());
  if (transform.has_scale()) numbers->set_scale(transform.scale());
  return parts;
}

}  // namespace crema
