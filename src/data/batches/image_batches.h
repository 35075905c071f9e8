// Batches of images and labels from a list of image files.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "data/batches/batch_filler.h"
#include "data/image/image.h"
#include "data/lists/file_reader.h"
#include "data/lists/image_list.h"
#include "data/pipeline/bounded_cache.h"
#include "data/pipeline/prefetcher.h"
#include "data/pipeline/shuffle.h"

namespace crema {

// The entries of a list that belong to one shard, in list order or shuffled. The shuffled order
// depends on seed, layer and epoch only. Does not read the files: the decoders do, in parallel.
// Announces upcoming files to the system.
class ImageFileSource final : public RecordSource {
 public:
  struct Options {
    Shard shard = {};
    bool shuffle = false;
    SampleCaches caches = {};
    uint64_t seed = 1;
    uint64_t layer_id = 0;
  };
  ImageFileSource(std::shared_ptr<const ImageList> list, Options options)
      : list_(std::move(list)), options_(std::move(options)), files_(options_.caches.encoded) {}

  void Seek(uint64_t position) override { position_ = position; }
  // Leaves the value empty.
  void Read(Record* record) override;
  std::string Name(const Record& record) const override {
    return list_->entries()[record.entry].path;
  }

 private:
  uint64_t EntryAt(uint64_t ordinal);

  const std::shared_ptr<const ImageList> list_;
  const Options options_;
  const FileReader files_;
  uint64_t position_ = 0;
  uint64_t epoch_ = 0;           // epoch of order_
  std::vector<uint32_t> order_;  // empty: not drawn yet
};

// Size and colour that all images of a list are converted to.
struct ImageShaping {
  ColorMode mode = ColorMode::kColor;
  int height = 0;  // set together with width; 0: keep the size
  int width = 0;
  int short_side = 0;  // resize the shorter side to this; 0: keep
};

// Decodes and resizes. Throws what DecodeImage throws; messages begin with `name`.
Image ReadShaped(std::string_view bytes, const ImageShaping& shaping, const std::string& name);

// Returns the shape (C x H x W) of an image of a list. Throws what reading and decoding it throws.
Shape ShapeOfEntry(const std::shared_ptr<const ImageList>& list, const ImageShaping& shaping,
                   uint64_t entry);

class ImageFileDecoder final : public SampleDecoder {
 public:
  // `caches` hold files, and images after shaping.
  ImageFileDecoder(std::shared_ptr<const ImageList> list, ImageShaping shaping, BatchFiller filler,
                   const SampleCaches& caches = {})
      : list_(std::move(list)),
        shaping_(shaping),
        filler_(std::move(filler)),
        cache_(caches.decoded),
        files_(caches.encoded) {}

  // Like DatumDecoder::Decode; also throws what reading the file throws, naming the line of the
  // list. Writes all labels of the image to places[1].
  void Decode(const Record& record, std::span<std::byte* const> places) override;

 private:
  const Image& Shaped(uint64_t entry, const std::string& name);
  void WriteLabels(uint64_t entry, std::byte* place) const;

  const std::shared_ptr<const ImageList> list_;
  const ImageShaping shaping_;
  BatchFiller filler_;
  const std::shared_ptr<ImageCache> cache_;
  FileReader files_;
  std::string storage_;
  Image image_;  // used if it is not in the cache
};

}  // namespace crema
