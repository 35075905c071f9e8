// Records of a data set, in order or shuffled, with an optional cache of decoded ones.
#pragma once

#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "data/augment/box.h"
#include "data/image/image.h"
#include "data/pipeline/bounded_cache.h"
#include "data/pipeline/prefetcher.h"
#include "data/pipeline/shuffle.h"
#include "data/records/datum.h"
#include "data/records/record_db.h"

namespace crema {

// A decoded record before random steps. The value owns a copy.
struct DecodedDatum {
  std::string key;
  Image image;
  int label = 0;
  std::vector<AnnotatedBox> objects = {};  // only for an AnnotatedDatum
};
using DecodedCache = BoundedCache<DecodedDatum>;

// Caches a decoded record. Does nothing for floats, which need no decoding.
void KeepDecoded(const Record& record, const PixelView& image, int label,
                 std::span<const AnnotatedBox> objects, DecodedCache* cache);

// The records of one shard of a data set, in the order of the options.
class DataSetSource final : public RecordSource {
 public:
  struct Options {
    Shard shard = {};
    OrderOptions order = {};
    // Cached records are not read: they return only number and key. May be null.
    std::shared_ptr<const DecodedCache> decoded = {};
  };
  DataSetSource(std::unique_ptr<RecordReader> reader, Options options)
      : reader_(std::move(reader)), options_(std::move(options)), skip_(options_.shard.rank) {}
  // Reads in the order of the keys.
  DataSetSource(const std::string& path, Shard shard)
      : DataSetSource(OpenRecords(path), {.shard = shard}) {}

  void Seek(uint64_t position) override;
  void Read(Record* record) override;
  std::string Name(const Record& record) const override { return PrintableKey(record.key); }

 private:
  // A record of a shuffled block, read ahead of its turn.
  struct Held {
    std::string storage;  // key and value, unless the data set keeps them in memory
    size_t key_bytes = 0;
    KeyedRecord persistent;
    std::exception_ptr error;
    const DecodedDatum* decoded = nullptr;
  };

  void ReadInOrder(Record* record);
  void ReadShuffled(Record* record);
  const DecodedDatum* FindDecoded(uint64_t sample) const;
  void ReadFromBlock(uint64_t position, Record* record);
  void LoadBlock(uint64_t position);
  void MoveReaderTo(uint64_t sample);
  void Hold(Held* held);
  void Give(const KeyedRecord& read, Record* record) const;
  SampleOrder& Order();

  const std::unique_ptr<RecordReader> reader_;
  const Options options_;
  std::optional<SampleOrder> order_;  // lazy, since it needs the count
  uint64_t position_ = 0;
  uint64_t skip_;  // records of other shards before the next one

  std::vector<Held> held_;                 // records of the block, by position
  uint64_t held_begin_ = 0;                // position of the first held record
  uint64_t held_end_ = 0;                  // equal to held_begin_: none
  std::optional<uint64_t> reader_stands_;  // sample that the reader is at, if known
};

}  // namespace crema
