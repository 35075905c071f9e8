#include "data/batches/batch_filler.h"

#include <algorithm>
#include <cmath>

#include "core/blob_types.h"
#include "core/error.h"
#include "core/rng.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "data/image/image_jpeg.h"
#include "data/transform/placement_bytes.h"

namespace crema {

BatchFiller::BatchFiller(Options options, std::shared_ptr<const Transformer> transformer)
    : options_(std::move(options)),
      transformer_(std::move(transformer)),
      augmenter_(
          SampleAugmenter::Make(*transformer_, {.channels = static_cast<int>(options_.sample[0]),
                                                .seed = options_.seed,
                                                .layer_id = options_.layer_id})),
      last_image_{0, 0, 0} {}

void BatchFiller::CheckShape(const Shape& image, const std::function<std::string()>& name) {
  if (image == last_image_) return;
  if (const auto misfit = transformer_->FindMisfit(image)) {
    Fail(ErrorCode::kDataLoss, StrCat(name(), ": ", misfit->message), {.field = misfit->field});
  }
  if (const Shape sample = transformer_->OutputShape(image); sample != options_.sample) {
    Fail(ErrorCode::kDataLoss,
         StrCat(name(), " is ", ToString(sample), ", but ", options_.who_decides, " ",
                ToString(options_.sample),
                ": all must have one size; transform_param.crop_size can cut them to it, and "
                "force_color or force_gray give encoded images the same number of channels"));
  }
  last_image_ = image;
}

void BatchFiller::CheckElements(const PixelView& image,
                                const std::function<std::string()>& name) const {
  if (options_.dtype != DType::kU8 || image.bytes != nullptr) return;
  if (options_.uploads) {
    Fail(
        ErrorCode::kDataLoss,
        StrCat(name(),
               " holds floats, but the first record bytes, as which images go up to the GPU: "
               "write the data set with one of both, or switch that off (--passes=-upload_bytes)"));
  }
  Fail(ErrorCode::kDataLoss,
       StrCat(name(),
              " holds floats, of which pipeline_param { output: U8 } can make no bytes: set FLOAT, "
              "or write the data set with bytes"));
}

void BatchFiller::Write(const PixelView& image, uint64_t ordinal,
                        const std::function<std::string()>& name, std::byte* place,
                        std::byte* placement) {
  CheckShape(image.shape(), name);
  const SampleAugmenter* augmenter = AugmenterFor(image.shape());
  CheckElements(image, name);
  if (augmenter == nullptr) return Transform(image, ordinal, place, placement);
  if (image.bytes == nullptr) {
    Fail(ErrorCode::kDataLoss, StrCat(name(), " holds floats; augment_param needs bytes"));
  }
  CopyPixels(image, &image_);
  augmenter->Apply(ordinal, &image_);
  Transform(ViewOf(image_), ordinal, place, placement);
}

Transformer::Placement BatchFiller::Keep(const Transformer::Placement& drawn,
                                         std::byte* placement) const {
  if (placement != nullptr) {
    StorePlacement({drawn.top, drawn.left, drawn.mirror}, reinterpret_cast<uint8_t*>(placement));
  }
  Transformer::Placement kept = drawn;
  if (options_.uploads) kept.mirror = false;
  return kept;
}

void BatchFiller::WriteAt(const PixelView& image, const Transformer::Placement& drawn,
                          std::byte* place, std::byte* placement) const {
  const Transformer::Placement kept = Keep(drawn, placement);
  DispatchBlob(options_.dtype, [&]<typename T>(T) {
    transformer_->ApplyAt(image, kept, reinterpret_cast<T*>(place));
  });
}

void BatchFiller::WriteEncoded(std::string_view file, ColorMode mode, uint64_t ordinal,
                               const std::function<std::string()>& name, std::byte* place,
                               std::byte* placement) {
#ifdef CREMA_HAVE_JPEG
  if (IsJpeg(file)) return WriteJpeg(file, mode, ordinal, name, place, placement);
#endif
  DecodeImage(file, mode, name(), &image_);
  Write(ViewOf(image_), ordinal, name, place, placement);
}

#ifdef CREMA_HAVE_JPEG
void BatchFiller::WriteJpeg(std::string_view file, ColorMode mode, uint64_t ordinal,
                            const std::function<std::string()>& name, std::byte* place,
                            std::byte* placement) {
  JpegFile jpeg(file, mode, name());
  const Shape shape = jpeg.shape();
  CheckShape(shape, name);
  if (const SampleAugmenter* augmenter = AugmenterFor(shape)) {
    AugmentJpeg(*augmenter, &jpeg, ordinal);
    return Transform(ViewOf(image_), ordinal, place, placement);
  }
  const PixelView size{static_cast<int>(shape[0]), static_cast<int>(shape[1]),
                       static_cast<int>(shape[2]), nullptr, nullptr};
  const Transformer::Placement kept = Keep(transformer_->Place(size, StreamOf(ordinal)), placement);
  jpeg.Decode({kept.top, kept.left, kept.height, kept.width}, &part_);
  const Transformer::PackedView view{part_.pixels.data(), ptrdiff_t{part_.width} * part_.channels,
                                     part_.channels};
  DispatchBlob(options_.dtype, [&]<typename T>(T) {
    transformer_->ApplyPacked(view, kept, reinterpret_cast<T*>(place));
  });
}

// Writes the result to image_.
void BatchFiller::AugmentJpeg(const SampleAugmenter& augmenter, JpegFile* jpeg, uint64_t ordinal) {
  const Shape shape = jpeg->shape();
  const auto part =
      augmenter.FirstPart(ordinal, static_cast<int>(shape[1]), static_cast<int>(shape[2]));
  if (!part) {
    jpeg->Decode(&image_);
    return augmenter.Apply(ordinal, &image_);
  }
  jpeg->Decode({part->top, part->left, part->height, part->width}, &part_);
  UnpackImage(part_, &image_);
  augmenter.ApplyToPart(ordinal, &image_);
}
#endif

RandomStream BatchFiller::StreamOf(uint64_t ordinal) const {
  return Transformer::SampleStream(options_.seed, options_.layer_id, ordinal);
}

void BatchFiller::WriteLabel(double label, const std::function<std::string()>& name,
                             std::byte* place) const {
  const int64_t classes = options_.classes;
  if (classes > 0 &&
      !(label >= 0 && label < static_cast<double>(classes) && label == std::trunc(label))) {
    Fail(ErrorCode::kDataLoss,
         StrCat(name(), " has label ", label, ", but augment_param.classes is ", classes,
                " (labels 0..", classes - 1, ")"),
         {.field = "transform_param.augment_param.classes"});
  }
  DispatchFloat(options_.label_dtype, [&]<typename T>(T) {
    T* values = reinterpret_cast<T*>(place);
    if (classes == 0) {
      values[0] = static_cast<T>(label);
    } else {
      std::fill_n(values, classes, T(0));
      values[static_cast<ptrdiff_t>(label)] = T(1);
    }
  });
}

BatchFiller::Options BatchFillerOptions(std::span<const BlobSpec> outputs,
                                        const TransformationParameter& transform, uint64_t seed,
                                        const std::string& layer) {
  const int64_t chosen = transform.random_seed();
  const BlobSpec& images = outputs[0];
  const Shape& shape = images.shape;
  const bool bytes = images.dtype == DType::kU8;
  return {
      .sample = bytes ? Shape{shape[3], shape[1], shape[2]} : Shape{shape[1], shape[2], shape[3]},
      .dtype = images.dtype,
      .label_dtype = outputs.size() > 1 ? outputs[1].dtype : DType::kF32,
      .seed = chosen >= 0 ? static_cast<uint64_t>(chosen) : seed,
      .layer_id = HashName(layer)};
}

}  // namespace crema
