#include "data/pipeline/prefetcher.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include "core/error.h"
#include "core/exec_context.h"
#include "core/strings.h"

namespace crema {
namespace {

// Small enough for all threads to share a batch, large enough to keep lock contention low.
size_t PieceSize(size_t batch, int threads) {
  constexpr size_t kMost = 16;
  return std::clamp<size_t>(batch / (2 * static_cast<size_t>(threads)), 1, kMost);
}

PrefetchOptions Resolve(PrefetchOptions options) {
  CREMA_CHECK(!options.outputs.empty() && options.depth > 0);
  for (const BlobSpec& spec : options.outputs) {
    CREMA_CHECK(spec.shape.axes() > 0 && spec.shape[0] > 0);
    CREMA_CHECK(spec.shape[0] == options.outputs[0].shape[0]);
  }
  if (options.decode_threads <= 0) options.decode_threads = std::min(2, AvailableProcessors());
  return options;
}

}  // namespace

Prefetcher::Prefetcher(PrefetchOptions options, std::unique_ptr<RecordSource> source,
                       MakeDecoder make_decoder)
    : options_(Resolve(std::move(options))),
      source_(std::move(source)),
      make_decoder_(std::move(make_decoder)),
      batch_(static_cast<size_t>(options_.outputs[0].shape[0])),
      piece_(PieceSize(batch_, options_.decode_threads)),
      pieces_per_batch_((batch_ + piece_ - 1) / piece_) {
  for (const BlobSpec& spec : options_.outputs) {
    strides_.push_back(static_cast<size_t>(spec.shape.count(1)) * SizeOf(spec.dtype));
  }
  slots_.resize(options_.depth + (options_.external ? 1 : 0));
  for (Slot& slot : slots_) {
    for (const BlobSpec& spec : options_.outputs) slot.outputs.emplace_back(spec.shape, spec.dtype);
    slot.records.resize(batch_);
    slot.is_bad.resize(batch_);
  }
}

Prefetcher::~Prefetcher() { Stop(); }

void Prefetcher::Start() {
  process_ = getpid();
  first_position_ = position_;
  source_->Seek(position_);
  stop_ = false;
  popped_ = freed_ = pieces_read_ = pieces_taken_ = 0;
  for (Slot& slot : slots_) {
    slot.pieces = pieces_per_batch_;
    slot.decoded = 0;
    slot.error = nullptr;
  }
  try {
    threads_.emplace_back([this] { ReadLoop(); });
    for (int i = 0; i < options_.decode_threads; ++i) {
      threads_.emplace_back([this] { DecodeLoop(); });
    }
  } catch (...) {  // thread creation failed: stop those that run before this object dies
    Stop();
    throw;
  }
}

void Prefetcher::Stop() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  free_slot_.notify_all();
  piece_read_.notify_all();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

bool Prefetcher::LostThreads() const { return !threads_.empty() && process_ != getpid(); }

void Prefetcher::RequireThreads() const {
  if (!LostThreads()) return;
  Fail(ErrorCode::kUnsupported,
       "the threads that read data are in the process that this one was forked from; open the net "
       "again in this process");
}

void Prefetcher::Restore(uint64_t position, uint64_t bad_samples) {
  RequireThreads();
  Stop();
  position_ = position;
  bad_samples_ = bad_samples;
}

void Prefetcher::Pop(std::span<const TensorView> outputs) {
  CREMA_CHECK(outputs.size() == options_.outputs.size());
  Copy(TakeBatch(), outputs);
  FreeSlots();
  position_ += batch_;
}

void Prefetcher::ExposeBuffers(std::span<std::byte*> places) {
  CREMA_CHECK(places.size() == options_.outputs.size() && options_.external && !options_.copy);
  Slot& slot = TakeBatch();
  for (size_t i = 0; i < places.size(); ++i) {
    places[i] = static_cast<std::byte*>(slot.outputs[i].view().raw());
  }
  position_ += batch_;
}

// Waits for the next batch before it frees the exposed one, so that an error leaves that intact.
Prefetcher::Slot& Prefetcher::TakeBatch() {
  RequireThreads();
  if (threads_.empty()) Start();
  Slot& slot = SlotOf(popped_);
  WaitFor(slot);
  CountBad(&slot);
  Replace(&slot);
  FreeSlots();
  popped_records_.resize(batch_);
  popped_records_.swap(slot.records);  // keeps the names of the samples
  ++popped_;
  return slot;
}

// Frees the slots of all popped batches.
void Prefetcher::FreeSlots() {
  {
    const std::lock_guard lock(mutex_);
    for (; freed_ < popped_; ++freed_) SlotOf(freed_).decoded = 0;
  }
  free_slot_.notify_one();
}

void Prefetcher::Copy(const Slot& slot, std::span<const TensorView> outputs) const {
  std::vector<ConstTensorView> from;
  for (size_t i = 0; i < outputs.size(); ++i) {
    from.push_back(slot.outputs[i].view());
    CREMA_CHECK(from[i].bytes() == outputs[i].bytes() && from[i].dtype() == outputs[i].dtype());
  }
  if (options_.copy) return options_.copy(from, position_, outputs);
  for (size_t i = 0; i < outputs.size(); ++i) {
    std::memcpy(outputs[i].raw(), from[i].raw(), from[i].bytes());
  }
}

void Prefetcher::WaitFor(Slot& slot) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point begin = Clock::now();
  std::unique_lock lock(mutex_);
  batch_ready_.wait(lock, [&] { return slot.decoded == slot.pieces; });
  waited_seconds_ += std::chrono::duration<double>(Clock::now() - begin).count();
  if (slot.error) std::rethrow_exception(slot.error);
}

std::string Prefetcher::SampleName(int64_t index) const {
  if (index < 0 || static_cast<size_t>(index) >= popped_records_.size()) return {};
  const auto place = static_cast<size_t>(index);
  return source_->Name(popped_records_[popped_from_.empty() ? place : popped_from_[place]]);
}

// Counts bad samples per popped batch, so that the count does not depend on what is read ahead.
void Prefetcher::CountBad(Slot* slot) {
  if (slot->bad.empty()) return;
  const char* outcome = options_.on_bad_sample == OnBadSample::kSkip
                            ? "the next good one of its batch takes its place"
                            : "the good one before it in its batch is used twice";
  std::ranges::sort(slot->bad, {}, &FailedSample::index);
  try {
    for (const FailedSample& bad : slot->bad) {
      ++bad_samples_;
      if (options_.deferred_warnings) {
        options_.deferred_warnings->Add(
            StrCat("bad sample ", bad_samples_, ": ", bad.reason, "; ", outcome));
      }
      if (options_.max_bad == 0 || bad_samples_ <= options_.max_bad) continue;
      Fail(ErrorCode::kDataLoss,
           StrCat("there are ", bad_samples_, " bad samples, and max_bad allows ", options_.max_bad,
                  "; the last is: ", bad.reason));
    }
    if (slot->bad.size() == batch_) {
      Fail(ErrorCode::kDataLoss,
           StrCat("all ", batch_,
                  " samples of a batch are bad, so none can take their place; the "
                  "last is: ",
                  slot->bad.back().reason));
    }
  } catch (const Error&) {
    slot->error = std::current_exception();
    throw;
  }
}

void Prefetcher::Replace(Slot* slot) {
  popped_from_.clear();
  if (slot->bad.empty()) return;
  popped_from_ = ReplaceBadSamples(slot->is_bad, options_.on_bad_sample);
  for (size_t k = 0; k < slot->outputs.size(); ++k) {
    auto* samples = static_cast<std::byte*>(slot->outputs[k].view().raw());
    for (const FailedSample& bad : slot->bad) {
      std::memcpy(samples + strides_[k] * bad.index,
                  samples + strides_[k] * popped_from_[bad.index], strides_[k]);
    }
  }
}

void Prefetcher::NoteError(Slot* slot, size_t index) {
  if (slot->error && slot->error_index <= index) return;
  slot->error = std::current_exception();
  slot->error_index = index;
}

void Prefetcher::NoteBad(Slot* slot, size_t index, const std::string& name, const Error& error) {
  if (options_.on_bad_sample == OnBadSample::kError || !IsAboutSample(error)) throw;
  std::string reason = ToString(error.problems().front());
  if (reason.find(name) == std::string::npos) reason = StrCat("'", name, "': ", reason);
  slot->is_bad[index] = 1;
  const std::lock_guard lock(mutex_);
  slot->bad.push_back({index, std::move(reason)});
}

bool Prefetcher::WaitForFreeSlot(uint64_t batch) {
  std::unique_lock lock(mutex_);
  free_slot_.wait(lock, [&] { return stop_ || batch < freed_ + slots_.size(); });
  return !stop_;
}

void Prefetcher::ReadLoop() {
  for (uint64_t batch = 0; WaitForFreeSlot(batch); ++batch) {
    ReadBatch(batch);
    const std::lock_guard lock(mutex_);
    if (SlotOf(batch).pieces < pieces_per_batch_) return;  // a read error: the consumer rethrows it
  }
}

void Prefetcher::ReadBatch(uint64_t batch) {
  Slot& slot = SlotOf(batch);
  slot.is_bad.assign(batch_, 0);
  slot.bad.clear();
  for (size_t piece = 0; piece < pieces_per_batch_; ++piece) {
    size_t i = piece * piece_;
    const size_t end = std::min(batch_, i + piece_);
    try {
      for (; i < end; ++i) ReadSample(batch, i);
    } catch (...) {
      const std::lock_guard lock(mutex_);
      NoteError(&slot, i);
      slot.pieces = piece;
      batch_ready_.notify_one();
      return;
    }
    const std::lock_guard lock(mutex_);
    if (stop_) return;
    ++pieces_read_;
    piece_read_.notify_one();
  }
}

void Prefetcher::ReadSample(uint64_t batch, size_t index) {
  Slot& slot = SlotOf(batch);
  try {
    source_->Read(&slot.records[index]);
  } catch (const Error& error) {
    NoteBad(&slot, index, /*name=*/"", error);  // the record may have no name yet
    source_->Seek(first_position_ + batch * batch_ + index + 1);
  }
}

void Prefetcher::DecodeLoop() {
  std::unique_ptr<SampleDecoder> decoder;
  std::vector<std::byte*> places(options_.outputs.size());
  while (true) {
    uint64_t ticket = 0;
    {
      std::unique_lock lock(mutex_);
      piece_read_.wait(lock, [&] { return stop_ || pieces_taken_ < pieces_read_; });
      if (stop_) return;
      ticket = pieces_taken_++;
    }
    Slot& slot = SlotOf(ticket / pieces_per_batch_);
    try {
      if (!decoder) decoder = make_decoder_();
      DecodePiece(ticket, *decoder, &places);
    } catch (...) {  // the decoder could not be created; DecodePiece handles its own errors
      const std::lock_guard lock(mutex_);
      NoteError(&slot, ticket % pieces_per_batch_ * piece_);
    }
    const std::lock_guard lock(mutex_);
    if (++slot.decoded == slot.pieces) batch_ready_.notify_one();
  }
}

void Prefetcher::DecodePiece(uint64_t ticket, SampleDecoder& decoder,
                             std::vector<std::byte*>* places) {
  Slot& slot = SlotOf(ticket / pieces_per_batch_);
  const size_t begin = ticket % pieces_per_batch_ * piece_;
  const size_t end = std::min(batch_, begin + piece_);
  for (size_t k = 0; k < places->size(); ++k) {
    (*places)[k] = static_cast<std::byte*>(slot.outputs[k].view().raw()) + strides_[k] * begin;
  }
  for (size_t i = begin; i < end; ++i) {
    try {
      if (slot.is_bad[i] == 0) DecodeSample(&slot, i, decoder, *places);
    } catch (...) {
      const std::lock_guard lock(mutex_);
      NoteError(&slot, i);
      return;  // the batch failed; skip the rest of the piece
    }
    for (size_t k = 0; k < places->size(); ++k) (*places)[k] += strides_[k];
  }
}

void Prefetcher::DecodeSample(Slot* slot, size_t index, SampleDecoder& decoder,
                              std::span<std::byte* const> places) {
  const Record& record = slot->records[index];
  try {
    decoder.Decode(record, places);
  } catch (const Error& error) {
    NoteBad(slot, index, source_->Name(record), error);
  }
}

}  // namespace crema
