// Batches of images and labels from an LMDB of Datum records.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "data/datum.h"
#include "data/lmdb.h"
#include "data/prefetcher.h"
#include "data/sample_writer.h"

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
  std::string Name(const Record& record) const override { return PrintableKey(record.key); }
  uint64_t count() const { return reader_.count(); }

 private:
  LmdbReader reader_;
  const Shard shard_;
  uint64_t position_ = 0;
};

// Decodes and transforms records to samples of one shape.
class DatumDecoder final : public SampleDecoder {
 public:
  DatumDecoder(const std::string& data_set, SampleWriter writer)
      : data_set_(data_set),
        writer_(std::move(writer)),
        reader_(data_set, writer_.transformer().color_mode()) {}

  // places[0] takes the image, places[1], where there is one, the label. Throws kDataLoss, naming
  // the record, for an image of another shape, besides what DatumReader throws.
  void Decode(const Record& record, std::span<std::byte* const> places) override;

 private:
  const std::string data_set_;
  SampleWriter writer_;
  DatumReader reader_;
};

}  // namespace crema
