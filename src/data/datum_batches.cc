#include "data/datum_batches.h"

#include <utility>

#include "core/error.h"
#include "core/strings.h"

namespace crema {

void LmdbSource::Seek(uint64_t position) {
  position_ = position;
  reader_.Seek(shard_.Ordinal(position));
}

void LmdbSource::Read(Record* record) {
  const LmdbRecord read = reader_.Next();
  // LMDB's values stay in the mapped file, so nothing is copied here.
  record->ordinal = shard_.Ordinal(position_++);
  record->key = read.key;
  record->value = read.value;
  for (uint64_t other = 1; other < shard_.world; ++other) reader_.Next();
}

DatumDecoder::DatumDecoder(Options options, std::shared_ptr<const Transformer> transformer)
    : options_(std::move(options)),
      transformer_(std::move(transformer)),
      reader_(options_.data_set, transformer_->color_mode()),
      last_image_{0, 0, 0} {}

void DatumDecoder::CheckShape(const Record& record, const Shape& image) const {
  if (const auto misfit = transformer_->FindMisfit(image)) {
    Where where;
    where.field = misfit->field;
    Fail(ErrorCode::kDataLoss,
         StrCat(RecordName(options_.data_set, record.key), ": ", misfit->message),
         std::move(where));
  }
  const Shape sample = transformer_->OutputShape(image);
  if (sample == options_.sample) return;
  Fail(ErrorCode::kDataLoss,
       StrCat(RecordName(options_.data_set, record.key), " is ", ToString(sample),
              ", but the first record is ", ToString(options_.sample),
              ": all must have one size; transform_param.crop_size can cut them to it, and "
              "force_color or force_gray give encoded images the same number of channels"));
}

void DatumDecoder::Decode(const Record& record, std::span<std::byte* const> places) {
  const PixelView image = reader_.Read(record.key, record.value);
  if (const Shape shape = image.shape(); shape != last_image_) {
    CheckShape(record, shape);
    last_image_ = shape;
  }
  const RandomStream random =
      Transformer::SampleStream(options_.seed, options_.layer_id, record.ordinal);
  DispatchFloat(options_.dtype, [&]<typename T>(T) {
    transformer_->Apply(image, random, reinterpret_cast<T*>(places[0]));
    if (places.size() > 1) *reinterpret_cast<T*>(places[1]) = static_cast<T>(reader_.label());
  });
}

}  // namespace crema
