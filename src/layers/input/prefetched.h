// The state of layers whose batches are read ahead of the net.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/deferred_warnings.h"
#include "crema.pb.h"
#include "data/pipeline/prefetcher.h"
#include "graph/layer.h"

namespace crema {

// What such a layer opens with its first batch.
struct BatchReader {
  PrefetchOptions options;  // outputs and, where there are none, notices are the state's affair
  std::unique_ptr<RecordSource> source;
  Prefetcher::MakeDecoder make_decoder;
};

// Where a layer stands. The prefetcher starts with the first batch that is asked for, so that a net
// which is only looked at starts no threads. Thread safety: one thread at a time.
class PrefetchedState final : public LayerSessionState, public HasDeferredWarnings {
 public:
  struct Options {
    std::string layer;   // for messages
    uint64_t first = 0;  // sample to begin with, unless restored
    std::function<BatchReader(std::span<const BlobSpec> outputs)> open;
    // Samples in one pass over the source, 0 when there is no such number; may open it.
    std::function<uint64_t()> epoch_size = [] { return uint64_t{0}; };
  };
  explicit PrefetchedState(Options options)
      : options_(std::move(options)), position_(options_.first) {}

  // Waits for the next batch and lends it where the net borrows, else copies it. Throws as below.
  void Next(const ForwardArgs& args);
  // Waits for the next batch; see Prefetcher::Lend. Views of `outputs` need not have memory. Throws
  // what reading and decoding threw, with the name of the layer.
  void ExposeBuffers(std::span<const TensorView> outputs, std::span<std::byte*> places) {
    Take(outputs, places);
  }

  void Save(LayerState* state) const override;
  void Restore(const LayerState& state) override;
  int64_t EpochSize() const override;
  std::string SampleName(int64_t index) const override;
  double WaitedSeconds() const override;
  std::vector<std::string> TakeWarnings() const override;

 private:
  void Take(std::span<const TensorView> outputs, std::span<std::byte*> external);
  void Open(std::span<const TensorView> outputs, bool external);

  const Options options_;
  uint64_t position_;
  uint64_t bad_samples_ = 0;
  uint64_t epoch_size_ = 0;  // 0 until it is open
  std::shared_ptr<DeferredWarnings> deferred_warnings_;
  std::unique_ptr<Prefetcher> prefetcher_;
};

// How many samples rand_skip leaves out at the start: 0 .. rand_skip - 1, from seed and layer.
uint64_t DrawSkip(uint32_t rand_skip, uint64_t seed, const std::string& layer);

// Puts the file that a problem is about into the message: the place of a problem of planning is
// that of the net's text.
void AddFileContext(Problem* problem);

// Throws what `body` throws, with the name of the layer and, where none is named, the field.
template <typename Body>
auto WithFieldContext(const Layer& layer, const std::string& field, Body&& body) {
  try {
    return body();
  } catch (const Error& error) {
    Problem problem = error.problems().front();
    AddFileContext(&problem);
    problem.where.layer = layer.param().name();
    if (problem.where.field.empty()) problem.where.field = field;
    throw Error(std::move(problem));
  }
}

// Fails unless data_param.prefetch and the like are in range. `field` is its path.
void CheckPrefetch(const Layer& layer, const std::string& field, uint32_t batches);
void CheckThreads(const Layer& layer, const std::string& field, uint32_t threads);
void CheckBatchSize(const Layer& layer, const std::string& field, uint32_t batch_size);

}  // namespace crema
