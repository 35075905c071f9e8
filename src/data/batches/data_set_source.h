// The records of a data set, in order or shuffled, with what was decoded before kept in memory.
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

// A record after decoding, before random steps. A value is a copy of what was decoded.
struct DecodedDatum {
  std::string key;
  Image image;
  int label = 0;
  std::vector<ObjectBox> objects = {};  // of an AnnotatedDatum
};
using DecodedCache = BoundedCache<DecodedDatum>;

// Keeps what was decoded of a record, unless it holds floats, which need no decoding.
void KeepDecoded(const Record& record, const PixelView& image, int label,
                 std::span<const ObjectBox> objects, DecodedCache* cache);

// The records of one shard of a data set, in the order that the options say.
class DataSetSource final : public RecordSource {
 public:
  struct Options {
    Shard shard = {};
    OrderOptions order = {};
    // Records that are here are not read: only their number and key are given. May be null.
    std::shared_ptr<const DecodedCache> decoded = {};
  };
  DataSetSource(std::unique_ptr<RecordReader> reader, Options options)
      : reader_(std::move(reader)), options_(std::move(options)), skip_(options_.shard.rank) {}
  // In the order of the keys.
  DataSetSource(const std::string& path, Shard shard)
      : DataSetSource(OpenRecords(path), {.shard = shard}) {}

  void Seek(uint64_t position) override;
  void Read(Record* record) override;
  std::string Name(const Record& record) const override { return PrintableKey(record.key); }

 private:
  // A record of a block that was read before it is asked for.
  struct Held {
    std::string storage;  // key and value, unless records last
    size_t key_bytes = 0;
    KeyedRecord lasting;
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
  std::optional<SampleOrder> order_;  // made when it is needed: it has to know the count
  uint64_t position_ = 0;
  uint64_t skip_;  // records of other shards that lie before the next one

  std::vector<Held> held_;                 // of the block, by position
  uint64_t held_begin_ = 0;                // position of the first
  uint64_t held_end_ = 0;                  // begin: none
  std::optional<uint64_t> reader_stands_;  // at this sample, where that is known
};

}  // namespace crema
