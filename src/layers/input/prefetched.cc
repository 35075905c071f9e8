#include "layers/input/prefetched.h"

#include <climits>
#include <utility>

#include "core/error.h"
#include "core/rng.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "format/field_setting.h"

namespace crema {

PrefetchedState::~PrefetchedState() {
  if (prefetcher_ && prefetcher_->LostThreads()) (void)prefetcher_.release();
}

void PrefetchedState::Next(const ForwardArgs& args) { Take(args.outputs, args.external); }

void PrefetchedState::Take(std::span<const TensorView> outputs, std::span<std::byte*> external) {
  try {
    if (!prefetcher_) Open(outputs, !external.empty());
    if (external.empty()) {
      prefetcher_->Pop(outputs);
    } else {
      prefetcher_->ExposeBuffers(external);
    }
  } catch (const Error& error) {  // thrown by a thread that does not know the layer
    Problem problem = error.problems().front();
    problem.where.layer = options_.layer;
    throw Error(std::move(problem));
  }
  position_ = prefetcher_->position();
  bad_samples_ = prefetcher_->bad_samples();
}

void PrefetchedState::Open(std::span<const TensorView> outputs, bool external) {
  std::vector<BlobSpec> specs;
  for (const TensorView& output : outputs) specs.push_back({output.shape(), output.dtype()});
  BatchReader reader = options_.open(specs);
  reader.options.outputs = std::move(specs);
  reader.options.external = external;
  if (!reader.options.deferred_warnings)
    reader.options.deferred_warnings = std::make_shared<DeferredWarnings>();
  deferred_warnings_ = reader.options.deferred_warnings;
  epoch_size_ = options_.epoch_size();
  prefetcher_ = std::make_unique<Prefetcher>(std::move(reader.options), std::move(reader.source),
                                             std::move(reader.make_decoder));
  prefetcher_->Restore(position_, bad_samples_);
}

void PrefetchedState::Save(LayerState* state) const {
  state->set_position(position_);
  if (epoch_size_ > 0) state->set_epoch(position_ / epoch_size_);
  if (bad_samples_ > 0) state->add_counters(bad_samples_);
}

void PrefetchedState::Restore(const LayerState& state) {
  position_ = state.position();
  bad_samples_ = state.counters_size() > 0 ? state.counters(0) : 0;
  if (prefetcher_) prefetcher_->Restore(position_, bad_samples_);
}

int64_t PrefetchedState::EpochSize() const {
  return static_cast<int64_t>(epoch_size_ > 0 ? epoch_size_ : options_.epoch_size());
}

std::string PrefetchedState::SampleName(int64_t index) const {
  return prefetcher_ ? prefetcher_->SampleName(index) : std::string();
}

double PrefetchedState::WaitedSeconds() const {
  return prefetcher_ ? prefetcher_->WaitedSeconds() : 0;
}

std::vector<std::string> PrefetchedState::TakeWarnings() const {
  return deferred_warnings_ ? deferred_warnings_->Take() : std::vector<std::string>();
}

void AddFileContext(Problem* problem) {
  Where& where = problem->where;
  if (where.file.empty()) return;
  const std::string line = where.line > 0 ? StrCat(":", where.line) : "";
  problem->message = StrCat("'", where.file, line, "' ", problem->message);
  where.file.clear();
  where.line = where.column = 0;
}

uint64_t DrawSkip(uint32_t rand_skip, uint64_t seed, const std::string& layer) {
  if (rand_skip == 0) return 0;
  const RandomStream random(seed, MixBits(HashName(layer), HashName("rand_skip")));
  return random.Below(0, rand_skip);
}

void CheckPrefetch(const Layer& layer, const std::string& field, uint32_t batches) {
  constexpr uint32_t kMost = 4096;
  if (batches >= 1 && batches <= kMost) return;
  FailField(layer, field, StrCat(field, " is ", batches, ", but must be 1 to ", kMost, " batches"));
}

void CheckThreads(const Layer& layer, const std::string& field, uint32_t threads) {
  constexpr uint32_t kMost = 256;
  if (threads <= kMost) return;
  FailField(layer, field, StrCat(field, " is ", threads, ", but must be 0 to ", kMost));
}

void CheckBatchSize(const Layer& layer, const std::string& field, uint32_t batch_size) {
  if (batch_size >= 1 && batch_size <= INT_MAX) return;
  FailField(layer, field,
            batch_size == kAutoBatch
                ? "AUTO is for data layers of phase TRAIN, in train, sweep and check: give a number"
                : StrCat(field, " must be 1 or more", batch_size == 0 ? "" : ", and below 2^31"));
}

}  // namespace crema
