// Shared by Data and AnnotatedData: a data set of records, read as data_param and pipeline_param
// request.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>

#include "core/exec_context.h"
#include "crema.pb.h"
#include "data/batches/data_set_source.h"
#include "data/pipeline/shuffle.h"
#include "data/records/record_db.h"
#include "layers/input/first_sample.h"
#include "layers/input/prefetched.h"

namespace crema {

// A data set that a layer opens once, since opening it can take a while: the headers of tar shards
// are read, the records of a LevelDB counted. Thread safety: any thread.
class OpenedOnce {
 public:
  explicit OpenedOnce(std::string path) : path_(std::move(path)) {}

  // Returns a reader of its own. Throws as OpenRecords does; the next call then tries again.
  std::unique_ptr<RecordReader> NewReader() {
    const std::lock_guard lock(mutex_);
    Open();
    return first_->Clone();
  }
  uint64_t Count() {
    const std::lock_guard lock(mutex_);
    Open();
    return first_->count();
  }

 private:
  void Open() {
    if (!first_) first_ = OpenRecords(path_);
  }

  const std::string path_;
  std::mutex mutex_;
  std::unique_ptr<RecordReader> first_;
};

// Returns the order of records. Requires, as the functions below, a layer with data_param that
// passed CheckPipeline.
OrderOptions OrderOf(const LayerParameter& param, uint64_t seed);

// Records of one shard in order, through the cache that the parameters request.
struct RecordStream {
  PrefetchOptions options;                // all but `outputs`
  std::unique_ptr<RecordSource> source;   // never null
  std::shared_ptr<DecodedCache> decoded;  // for the decoders; null unless cache is DECODED
};
RecordStream OpenStream(const LayerParameter& param, OpenedOnce& records, uint64_t seed,
                        const Shard& shard);

// Returns the state options of such a layer. `open` makes a BatchReader of the given stream.
using OpenBatches = std::function<BatchReader(RecordStream, std::span<const BlobSpec> outputs)>;
PrefetchedState::Options RecordState(const LayerParameter& param,
                                     const std::shared_ptr<OpenedOnce>& records, uint64_t seed,
                                     const Shard& shard, OpenBatches open);

// Returns look(record) of the first good record. See LookForFirst.
template <typename Look>
auto LookAtRecords(const PipelineParameter& param, RecordReader& reader, Look&& look) {
  bool stands = false;  // at the next sample
  return LookForFirst(
      param, [&] { return reader.count(); },
      [&](uint64_t sample) {
        if (!std::exchange(stands, false)) reader.Seek(sample);
        const KeyedRecord record = reader.Next();
        stands = true;
        return look(record);
      });
}

}  // namespace crema
