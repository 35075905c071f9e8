// Session state of layers whose batches are read ahead of the net.
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

// The reader that such a layer opens with its first batch.
struct BatchReader {
  PrefetchOptions options;  // PrefetchedState sets `outputs`, and `deferred_warnings` if null
  std::unique_ptr<RecordSource> source;
  Prefetcher::MakeDecoder make_decoder;
};

// Position of a layer in its source. The prefetcher starts with the first batch that is requested,
// so that a net that is only inspected starts no threads. Thread safety: one thread at a time.
class PrefetchedState final : public LayerSessionState, public HasDeferredWarnings {
 public:
  struct Options {
    std::string layer;   // for error messages
    uint64_t first = 0;  // first sample, unless restored
    std::function<BatchReader(std::span<const BlobSpec> outputs)> open;
    // Returns the number of samples in one pass over the source, 0 if it has none. May open the
    // source.
    std::function<uint64_t()> epoch_size = [] { return uint64_t{0}; };
  };
  explicit PrefetchedState(Options options)
      : options_(std::move(options)), position_(options_.first) {}

  ~PrefetchedState() override;
  PrefetchedState(const PrefetchedState&) = delete;
  PrefetchedState& operator=(const PrefetchedState&) = delete;

  // Waits for the next batch. Exposes its buffers if `args.external` is not empty, else copies it
  // to the outputs. Throws as ExposeBuffers does.
  void Next(const ForwardArgs& args);
  // Waits for the next batch; see Prefetcher::ExposeBuffers. Views of `outputs` need no memory.
  // Throws the errors of reading and decoding, with the name of the layer.
  void ExposeBuffers(std::span<const TensorView> outputs, std::span<std::byte*> places) {
    Take(outputs, places);
  }

  void Save(LayerState* state) const override;
  void Restore(const LayerState& state) override;
  bool IsPosition() const override { return true; }
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
  uint64_t epoch_size_ = 0;  // 0 until opened
  std::shared_ptr<DeferredWarnings> deferred_warnings_;
  std::unique_ptr<Prefetcher> prefetcher_;
};

// A layer with such a state.
class PrefetchedLayer : public Layer {
 public:
  using Layer::Layer;
  void Forward(const ForwardArgs& args) const final {
    static_cast<PrefetchedState*>(args.state)->Next(args);
  }
};

// Returns how many samples rand_skip skips at the start: 0 .. rand_skip - 1, drawn from seed and
// layer.
uint64_t DrawSkip(uint32_t rand_skip, uint64_t seed, const std::string& layer);

// Moves the file of a problem into the message, since the position of a planning problem refers to
// the text of the net.
void AddFileContext(Problem* problem);

// Returns body(). Adds to its errors the name of the layer and, if they name no field, `field`.
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

// Fail unless data_param.prefetch and the like are in range. `field` is the path of the field.
void CheckPrefetch(const Layer& layer, const std::string& field, uint32_t batches);
void CheckThreads(const Layer& layer, const std::string& field, uint32_t threads);
void CheckBatchSize(const Layer& layer, const std::string& field, uint32_t batch_size);

}  // namespace crema
