#include "data/batches/image_batches.h"

#include <algorithm>
#include <cmath>

#include "core/rng.h"
#include "data/image/image.h"

namespace crema {

namespace {

std::string_view ReadEntry(const ImageList& list, uint64_t number, FileReader* files,
                           std::string* storage) {
  const ImageList::Entry& entry = list.entries()[number];
  return files->ReadListed(number, entry.path, list.source(), entry.line, storage);
}

}  // namespace

uint64_t ImageFileSource::EntryAt(uint64_t ordinal) {
  const uint64_t count = list_->entries().size();
  if (!options_.shuffle) return ordinal % count;
  const uint64_t epoch = ordinal / count;
  if (order_.empty() || epoch != epoch_) {
    const uint64_t stream = MixBits(options_.layer_id, HashName("image order"));
    order_ = Permutation(static_cast<uint32_t>(count), RandomStream(options_.seed, stream, epoch));
    epoch_ = epoch;
  }
  return order_[ordinal % count];
}

void ImageFileSource::Read(Record* record) {
  record->ordinal = options_.shard.Ordinal(position_++);
  record->entry = EntryAt(record->ordinal);
  record->value = {};
  const auto& decoded = options_.caches.decoded;
  if (decoded && decoded->Find(record->entry) != nullptr) return;
  files_.Announce(record->entry, list_->entries()[record->entry].path);
}

Image ReadShaped(std::string_view bytes, const ImageShaping& shaping, const std::string& name) {
  Image image;
  DecodeImage(bytes, shaping.mode, name, &image);
  int height = shaping.height;
  int width = shaping.width;
  if (shaping.short_side > 0) {
    const double factor = static_cast<double>(shaping.short_side) /
                          static_cast<double>(std::min(image.height, image.width));
    height = std::max(shaping.short_side, static_cast<int>(std::lround(image.height * factor)));
    width = std::max(shaping.short_side, static_cast<int>(std::lround(image.width * factor)));
    if (image.height < image.width) height = shaping.short_side;
    if (image.width < image.height) width = shaping.short_side;
  }
  if (height == 0 || (height == image.height && width == image.width)) return image;
  return Resize(image, height, width);
}

Shape ShapeOfEntry(const std::shared_ptr<const ImageList>& list, const ImageShaping& shaping,
                   uint64_t entry) {
  FileReader files(nullptr);
  std::string storage;
  const std::string_view bytes = ReadEntry(*list, entry, &files, &storage);
  const Image image = ReadShaped(bytes, shaping, list->Name(list->entries()[entry]));
  return {image.channels, image.height, image.width};
}

void ImageFileDecoder::Decode(const Record& record, std::span<std::byte* const> places) {
  const ImageList::Entry& entry = list_->entries()[record.entry];
  const auto name = [&] { return list_->Name(entry); };
  std::byte* placement = filler_.PlacementOf(places);
  const bool as_it_is = shaping_.height == 0 && shaping_.short_side == 0;
  if (as_it_is && !cache_) {
    filler_.WriteEncoded(ReadEntry(*list_, record.entry, &files_, &storage_), shaping_.mode,
                         record.ordinal, name, places[0], placement);
  } else {
    const Image& image = Shaped(record.entry, name());
    filler_.Write(ViewOf(image), record.ordinal, name, places[0], placement);
  }
  if (std::byte* to = filler_.LabelOf(places)) WriteLabels(record.entry, to);
}

const Image& ImageFileDecoder::Shaped(uint64_t entry, const std::string& name) {
  if (cache_) {
    if (const Image* kept = cache_->Find(entry)) return *kept;
  }
  image_ = ReadShaped(ReadEntry(*list_, entry, &files_, &storage_), shaping_, name);
  if (cache_) cache_->Keep(entry, image_, image_.pixels.size());
  return image_;
}

void ImageFileDecoder::WriteLabels(uint64_t entry, std::byte* place) const {
  if (filler_.options().classes > 0) {
    const auto name = [&] { return list_->Name(list_->entries()[entry]); };
    return filler_.WriteLabel(list_->Label(entry, 0), name, place);
  }
  DispatchFloat(filler_.options().label_dtype, [&]<typename T>(T) {
    T* labels = reinterpret_cast<T*>(place);
    for (size_t i = 0; i < list_->label_count(); ++i) {
      labels[i] = static_cast<T>(list_->Label(entry, i));
    }
  });
}

}  // namespace crema
