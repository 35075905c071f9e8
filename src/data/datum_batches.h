// Batches of images and labels from an LMDB of Datum records.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "core/dtype.h"
#include "core/shape.h"
#include "data/datum.h"
#include "data/lmdb.h"
#include "data/prefetcher.h"
#include "data/transformer.h"

namespace crema {

// Which samples of an endless sequence belong to one process: those whose ordinal % world == rank.
struct Shard {
  uint64_t rank = 0;
  uint64_t world = 1;

  uint64_t Ordinal(uint64_t position) const { return position * world + rank; }
};

// The records of one shard. As the ordinal goes on counting after a wrap, shards rotate from epoch
// to epoch unless the number of records is a multiple of `world`.
class LmdbSource final : public RecordSource {
 public:
  LmdbSource(const std::string& path, Shard shard) : reader_(path), shard_(shard) {}

  void Seek(uint64_t position) override;
  void Read(Record* record) override;
  uint64_t count() const { return reader_.count(); }

 private:
  LmdbReader reader_;
  const Shard shard_;
  uint64_t position_ = 0;
};

// Decodes and transforms records to samples of one shape.
class DatumDecoder final : public SampleDecoder {
 public:
  struct Options {
    std::string data_set;  // for messages
    Shape sample;          // C x H x W of every sample
    DType dtype = DType::kF32;
    uint64_t seed = 1;
    uint64_t layer_id = 0;
  };
  // `transformer` is shared by the decoders of a layer.
  DatumDecoder(Options options, std::shared_ptr<const Transformer> transformer);

  // places[0] takes the image, places[1], where there is one, the label. Throws kDataLoss, naming
  // the record, for an image of another shape, besides what DatumReader throws.
  void Decode(const Record& record, std::span<std::byte* const> places) override;

 private:
  void CheckShape(const Record& record, const Shape& image) const;

  const Options options_;
  const std::shared_ptr<const Transformer> transformer_;
  DatumReader reader_;
  Shape last_image_;  // passed the checks already
};

}  // namespace crema
