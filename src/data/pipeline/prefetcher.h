// Reads and decodes batches ahead of the net, on its own threads.
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

// One record as read. The views refer to `storage`, or to memory that lives as long as the source.
struct Record {
  uint64_t ordinal = 0;  // counts the samples of all shards; keeps growing after a wrap
  uint64_t entry = 0;    // index in the data set, for sources with a list
  std::string_view key;
  std::string_view value;
  std::string storage;
};

// Endless sequence of records. Thread safety: one thread at a time; may differ from the creating
// thread.
class RecordSource {
 public:
  virtual ~RecordSource() = default;
  // Makes sample `position` of this source the next one.
  virtual void Seek(uint64_t position) = 0;
  // Reuses the memory of `record`. Throws Error, which names the sample if it concerns one; call
  // Seek before the next Read then.
  virtual void Read(Record* record) = 0;
  // Returns the human-readable name of a record that was read: its key, or the path of its file.
  // May be called from any thread during Read.
  virtual std::string Name(const Record& record) const { return std::string(record.key); }
};

// Decodes one record to one sample. Each thread has its own object.
class SampleDecoder {
 public:
  virtual ~SampleDecoder() = default;
  // Writes the sample to its place in each output. Must depend on the record alone, so that batches
  // do not depend on the number of threads. Throws Error.
  virtual void Decode(const Record& record, std::span<std::byte* const> places) = 0;
};

struct PrefetchOptions {
  std::vector<BlobSpec> outputs;  // the first axis is the batch, equal for all
  size_t depth = 4;               // batches that may be ready or in progress
  bool external = false;          // ExposeBuffers is called: adds a slot for the exposed batch
  int decode_threads = 0;         // 0: two, or one on a single processor
  OnBadSample on_bad_sample = OnBadSample::kError;
  uint64_t max_bad = 0;  // more bad samples than this are an error; 0: no limit
  std::shared_ptr<DeferredWarnings> deferred_warnings =
      nullptr;  // takes warnings about bad samples; may be null
  // Copies the batch that begins with sample `position` to the consumer, on its thread; empty:
  // plain copy. ExposeBuffers must not be called then. Changes must depend on batch and position
  // only.
  std::function<void(std::span<const ConstTensorView> from, uint64_t position,
                     std::span<const TensorView> to)>
      copy = {};
};

// A bounded ring of batches. One thread reads records in order; others decode pieces of a batch.
// Batches are returned in order, and their bytes depend on the position alone. Threads start with
// the first Pop. Thread safety: one consumer at a time.
class Prefetcher {
 public:
  using MakeDecoder = std::function<std::unique_ptr<SampleDecoder>()>;

  // Requires: at least one output, batch and depth of 1 or more.
  Prefetcher(PrefetchOptions options, std::unique_ptr<RecordSource> source,
             MakeDecoder make_decoder);
  ~Prefetcher();  // stops promptly, also during waits and decoding
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;

  // Waits for the next batch and copies it. Rethrows errors of reading and decoding; the position
  // stays before the bad batch then, and every later Pop throws the same. If bad samples are
  // replaced, throws kDataLoss for a batch without a good one, and for too many bad ones.
  void Pop(std::span<const TensorView> outputs);
  // Like Pop without a copy: returns the buffers of the batch. They may be written to, and remain
  // valid until the next batch is taken or Restore is called.
  void ExposeBuffers(std::span<std::byte*> places);

  // Returns the number of popped samples, without those read ahead.
  uint64_t position() const { return position_; }
  // Returns the number of bad samples in popped batches and in batches that Pop threw for.
  uint64_t bad_samples() const { return bad_samples_; }
  // The next Pop begins with this sample, and this count of bad ones. Discards batches read ahead,
  // and an error.
  void Restore(uint64_t position, uint64_t bad_samples = 0);

  // Returns true in a process that was forked when the threads had started: it has none of them,
  // and what they wrote may be incomplete. Pop and Restore throw then, and the object must not be
  // destroyed.
  bool LostThreads() const;

  // Returns the name of sample `index` of the last popped batch, or of its replacement if it was
  // bad; empty without one.
  std::string SampleName(int64_t index) const;
  // Returns the total time that Pop waited, in seconds.
  double WaitedSeconds() const { return waited_seconds_; }

 private:
  struct Slot {
    std::vector<Tensor> outputs;
    std::vector<Record> records;
    size_t pieces = 0;  // pieces to decode; fewer than usual after a read error
    size_t decoded = 0;
    std::exception_ptr error;
    size_t error_index = 0;  // sample in the batch; the first error is kept
    // Bad samples to be replaced. The thread that decodes a sample writes its flag.
    std::vector<uint8_t> is_bad;
    std::vector<FailedSample> bad;
  };

  void Start();
  void Stop();
  void RequireThreads() const;
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
  // Rethrows the error unless it is tolerated. Requires: `error` is being handled.
  void NoteBad(Slot* slot, size_t index, const std::string& name, const Error& error);
  void CountBad(Slot* slot);
  void Replace(Slot* slot);
  void Copy(const Slot& slot, std::span<const TensorView> outputs) const;

  const PrefetchOptions options_;
  const std::unique_ptr<RecordSource> source_;
  const MakeDecoder make_decoder_;
  const size_t batch_;
  const size_t piece_;  // samples per piece
  const size_t pieces_per_batch_;
  std::vector<size_t> strides_;  // bytes of one sample, by output
  uint64_t position_ = 0;
  uint64_t first_position_ = 0;  // position when the threads started
  std::vector<Slot> slots_;
  uint64_t bad_samples_ = 0;
  uint64_t popped_ = 0;                 // batches since the start
  std::vector<Record> popped_records_;  // of the last batch; their memory is reused
  std::vector<size_t> popped_from_;     // source of each sample; empty: not replaced
  double waited_seconds_ = 0;

  std::mutex mutex_;  // guards the members below, and the counters in slots_
  std::condition_variable free_slot_;
  std::condition_variable piece_read_;
  std::condition_variable batch_ready_;
  bool stop_ = false;
  uint64_t freed_ = 0;        // batches whose slot is free again, since the start
  uint64_t pieces_read_ = 0;  // pieces ready for decoding, since the start
  uint64_t pieces_taken_ = 0;
  std::vector<std::thread> threads_;
  int process_ = 0;  // that has the threads
};

}  // namespace crema
