#include "data/sample_writer.h"

#include "core/blob_types.h"
#include "core/error.h"
#include "core/rng.h"
#include "core/strings.h"
#include "data/image_jpeg.h"

namespace crema {

void SampleWriter::CheckShape(const Shape& image, const std::function<std::string()>& name) {
  if (image == last_image_) return;
  if (const auto misfit = transformer_->FindMisfit(image)) {
    Where where;
    where.field = misfit->field;
    Fail(ErrorCode::kDataLoss, StrCat(name(), ": ", misfit->message), std::move(where));
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

void SampleWriter::CheckElements(const PixelView& image,
                                 const std::function<std::string()>& name) const {
  if (options_.dtype != DType::kU8 || image.bytes != nullptr) return;
  Fail(ErrorCode::kDataLoss,
       StrCat(name(),
              " holds floats, of which pipeline_param { output: U8 } can make no bytes: set FLOAT, "
              "or write the data set with bytes"));
}

void SampleWriter::Write(const PixelView& image, uint64_t ordinal,
                         const std::function<std::string()>& name, std::byte* place) {
  CheckShape(image.shape(), name);
  CheckElements(image, name);
  const RandomStream random = StreamOf(ordinal);
  DispatchBlob(options_.dtype, [&]<typename T>(T) {
    transformer_->Apply(image, random, reinterpret_cast<T*>(place));
  });
}

void SampleWriter::WriteEncoded(std::string_view file, ColorMode mode, uint64_t ordinal,
                                const std::function<std::string()>& name, std::byte* place) {
#ifdef CREMA_HAVE_JPEG
  if (IsJpeg(file)) return WriteJpeg(file, mode, ordinal, name, place);
#endif
  DecodeImage(file, mode, name(), &image_);
  Write({image_.channels, image_.height, image_.width, image_.pixels.data(), nullptr}, ordinal,
        name, place);
}

#ifdef CREMA_HAVE_JPEG
void SampleWriter::WriteJpeg(std::string_view file, ColorMode mode, uint64_t ordinal,
                             const std::function<std::string()>& name, std::byte* place) {
  JpegFile jpeg(file, mode, name());
  const Shape shape = jpeg.shape();
  CheckShape(shape, name);
  const PixelView size{static_cast<int>(shape[0]), static_cast<int>(shape[1]),
                       static_cast<int>(shape[2]), nullptr, nullptr};
  const Transformer::Placement kept = transformer_->Place(size, StreamOf(ordinal));
  jpeg.Decode({kept.top, kept.left, kept.height, kept.width}, &part_);
  const Transformer::PackedView view{part_.pixels.data(), ptrdiff_t{part_.width} * part_.channels,
                                     part_.channels};
  DispatchBlob(options_.dtype, [&]<typename T>(T) {
    transformer_->ApplyPacked(view, kept, reinterpret_cast<T*>(place));
  });
}
#endif

RandomStream SampleWriter::StreamOf(uint64_t ordinal) const {
  return Transformer::SampleStream(options_.seed, options_.layer_id, ordinal);
}

void SampleWriter::WriteLabel(int label, std::byte* place) const {
  DispatchFloat(options_.label_dtype,
                [&]<typename T>(T) { *reinterpret_cast<T*>(place) = static_cast<T>(label); });
}

SampleWriter::Options WriterOptions(std::span<const BlobSpec> outputs,
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
