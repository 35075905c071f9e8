#include "data/batches/datum_batches.h"

#include <string_view>

namespace crema {

void DatumDecoder::Decode(const Record& record, std::span<std::byte* const> places) {
  if (cache_) return DecodeOnce(record, places);
  const auto name = [&] { return NameOf(record); };
  std::byte* placement = filler_.PlacementOf(places);
  const std::string_view file = reader_.FindFile(record.key, record.value);
  if (file.empty()) {
    filler_.Write(reader_.Pixels(record.key), record.ordinal, name, places[0], placement);
  } else {
    filler_.WriteEncoded(file, filler_.transformer().color_mode(), record.ordinal, name, places[0],
                         placement);
  }
  if (std::byte* to = filler_.LabelOf(places)) filler_.WriteLabel(reader_.label(), name, to);
}

void DatumDecoder::DecodeOnce(const Record& record, std::span<std::byte* const> places) {
  const auto name = [&] { return NameOf(record); };
  std::byte* placement = filler_.PlacementOf(places);
  int label = 0;
  if (const DecodedDatum* kept = cache_->Find(record.entry)) {
    filler_.Write(ViewOf(kept->image), record.ordinal, name, places[0], placement);
    label = kept->label;
  } else {
    const PixelView image = reader_.Read(record.key, record.value);
    filler_.Write(image, record.ordinal, name, places[0], placement);
    label = reader_.label();
    KeepDecoded(record, image, label, {}, cache_.get());
  }
  if (std::byte* to = filler_.LabelOf(places)) filler_.WriteLabel(label, name, to);
}

}  // namespace crema
