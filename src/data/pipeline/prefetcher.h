// Reads and decodes batches ahead of the net, on threads of its own.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "core/deferred_warnings.h"
#include "core/exec_context.h"
#include "core/tensor.h"
#include "data/pipeline/bad_samples.h"

namespace crema {

// One record as read. The views may point into `storage`, or to memory that lives as long as the
// source does.
struct Record {
  uint64_t ordinal = 0;  // counts the samples of all shards; goes on growing after a wrap
  uint64_t entry = 0;    // which one of the data set, where the source has a list of them
  std::string_view key;
  std::string_view value;
  std::string storage;
};

// Records in order, without end. Thread safety: one thread at a time; not the one that made it.
class RecordSource {
 public:
  virtual ~RecordSource() = default;
  // The next Read gives sample `position` of this source.
  virtual void Seek(uint64_t position) = 0;
  // Reuses the memory of `record`. Throws Error, which names the sample where it is about one;
  // after that Seek says what comes next.
  virtual void Read(Record* record) = 0;
  // What people call a record that was read: its key, the path of its file. Any thread, while
  // another reads.
  virtual std::string Name(const Record& record) const { return std::string(record.key); }
};

// Turns one record into one sample. One object a thread.
class SampleDecoder {
 public:
  virtual ~SampleDecoder() = default;
  // Writes the sample's piece of each output to `places`; must be a function of the record alone,
  // so that batches do not depend on the number of threads. Throws Error.
  virtual void Decode(const Record& record, std::span<std::byte* const> places) = 0;
};

struct PrefetchOptions {
  std::vector<BlobSpec> outputs;  // with the batch as first axis, the same in all
  size_t depth = 4;               // batches that may be ready or in work
  bool external = false;   // ExposeBuffers will be called: makes room for the batch that is out
  int decode_threads = 0;  // 0: two, or one where there is only one processor
  OnBadSample on_bad_sample = OnBadSample::kError;
  uint64_t max_bad = 0;  // more bad samples than this are an error; 0: any number
  std::shared_ptr<DeferredWarnings> deferred_warnings =
      nullptr;  // hears of bad samples; may be null
  // Copies the batch that begins with sample `position` to the consumer, on its thread; empty: as
  // it is. Then ExposeBuffers must not be called. What it changes must be a function of batch and
  // position.
  std::function<void(std::span<const ConstTensorView> from, uint64_t position,
                     std::span<const TensorView> to)>
      copy = {};
};

// A bounded ring of batches. One thread reads records in order; others decode pieces of a batch.
// Batches leave in order, and their bytes depend on the position alone. Threads start with the
// first Pop. Thread safety: one consumer at a time.
class Prefetcher {
 public:
  using MakeDecoder = std::function<std::unique_ptr<SampleDecoder>()>;

  // Requires: at least one output, batch and depth of 1 or more.
  Prefetcher(PrefetchOptions options, std::unique_ptr<RecordSource> source,
             MakeDecoder make_decoder);
  ~Prefetcher();  // stops promptly, whatever waits or works
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;

  // Waits for the next batch and copies it. Rethrows what reading or decoding it threw; the
  // position stays before the bad batch then, and every later Pop throws the same. Where bad
  // samples are replaced, it throws kDataLoss for a batch without a good one, and for too many bad
  // ones.
  void Pop(std::span<const TensorView> outputs);
  // The same without a copy: where each output of the batch lies. It may be written to, and stays
  // until the next batch is taken or Restore is called.
  void ExposeBuffers(std::span<std::byte*> places);

  // Samples that were popped, not those that were read ahead.
  uint64_t position() const { return position_; }
  // Bad samples among those that were popped and those that a Pop threw about.
  uint64_t bad_samples() const { return bad_samples_; }
  // The next Pop begins with this sample, and counts on from these bad ones. Drops what was read
  // ahead, and an error.
  void Restore(uint64_t position, uint64_t bad_samples = 0);

  // The name of sample `index` of the batch that was popped last, of the one that took its place if
  // it was bad; empty when there is none.
  std::string SampleName(int64_t index) const;
  // Seconds that Pop has waited so far.
  double WaitedSeconds() const { return waited_seconds_; }

 private:
  struct Slot {
    std::vector<Tensor> outputs;
    std::vector<Record> records;
    size_t pieces = 0;  // how many will be decoded; fewer than usual after a read error
    size_t decoded = 0;
    std::exception_ptr error;
    size_t error_index = 0;  // of the sample inside the batch; the first one wins
    // Bad samples that will be replaced. A flag is written by the thread that works on the sample.
    std::vector<uint8_t> is_bad;
    std::vector<FailedSample> bad;
  };

  void Start();
  void Stop();
  Slot& TakeBatch();
  void FreeSlots();
  void WaitFor(Slot& slot);
  void ReadLoop();
  bool WaitForFreeSlot(uint64_t batch);
  void ReadBatch(uint64_t batch);
  void ReadSample(uint64_t batch, size_t index);
  void DecodeLoop();
  void DecodePiece(uint64_t ticket, SampleDecoder& decoder, std::vector<std::byte*>* places);
  Slot& SlotOf(uint64_t batch) { return slots_[batch % slots_.size()]; }
  void DecodeSample(Slot* slot, size_t index, SampleDecoder& decoder,
                    std::span<std::byte* const> places);
  static void NoteError(Slot* slot, size_t index);
  // Rethrows an error that may not be passed over. Requires: `error` is being handled.
  void NoteBad(Slot* slot, size_t index, const std::string& name, const Error& error);
  void CountBad(Slot* slot);
  void Replace(Slot* slot);
  void Copy(const Slot& slot, std::span<const TensorView> outputs) const;

  const PrefetchOptions options_;
  const std::unique_ptr<RecordSource> source_;
  const MakeDecoder make_decoder_;
  const size_t batch_;
  const size_t piece_;  // samples that a decoder takes at once
  const size_t pieces_per_batch_;
  std::vector<size_t> strides_;  // bytes of one sample, by output
  uint64_t position_ = 0;
  uint64_t first_position_ = 0;  // where the threads started
  std::vector<Slot> slots_;
  uint64_t bad_samples_ = 0;
  uint64_t popped_ = 0;                 // batches, since the start
  std::vector<Record> popped_records_;  // of the last batch; their memory goes round
  std::vector<size_t> popped_from_;     // which of them stands where; empty: each at its place
  double waited_seconds_ = 0;

  std::mutex mutex_;  // guards what follows, and the counters in slots_
  std::condition_variable free_slot_;
  std::condition_variable piece_read_;
  std::condition_variable batch_ready_;
  bool stop_ = false;
  uint64_t freed_ = 0;        // batches whose slot may be filled again, since the start
  uint64_t pieces_read_ = 0;  // pieces ready for decoding, since the start
  uint64_t pieces_taken_ = 0;
  std::vector<std::thread> threads_;
};

}  // namespace crema
