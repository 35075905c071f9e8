// One update of a net by each solver type: 25 million elements in 160 blobs of very different
// sizes, as of ResNet-50. The argument is the number of threads; bytes are what the formula has to
// read and write. "plain" is SGD as a bare loop over one blob, without the search for broken
// numbers.
#include <benchmark/benchmark.h>

#include <vector>

#include "core/exec_context.h"
#include "crema.pb.h"
#include "math/vectorize.h"
#include "solvers/update_rule.h"

namespace {

using namespace crema;  // NOLINT: a program, not a library

constexpr int kBlobs = 160;
constexpr int64_t kLarge = 300000;

// Weights, gradients and history of all blobs.
class Memory {
 public:
  explicit Memory(int histories) : histories_(histories) {
    for (int b = 0; b < kBlobs; ++b) {
      const Shape shape = {b % 2 == 0 ? kLarge + b : 256};
      for (int t = 0; t < histories + 2; ++t) {
        tensors_.emplace_back(shape, DType::kF32);
        for (float& x : tensors_.back().view().span<float>()) x = t < 2 ? 0.01F : 0;
      }
    }
    views_.resize(kBlobs);
    for (int b = 0; b < kBlobs; ++b) {
      const auto slot = static_cast<size_t>(b);
      for (int h = 0; h < histories; ++h) views_[slot].push_back(At(b, 2 + h));
      updates_.push_back({.weights = At(b, 0),
                          .gradient = At(b, 1),
                          .history = views_[slot],
                          .rate = 1e-6,
                          .decay = 1e-4});
    }
  }

  const std::vector<BlobUpdate>& updates() const { return updates_; }
  int64_t bytes() const {  // the gradient is only read
    int64_t elements = 0;
    for (const BlobUpdate& update : updates_) elements += update.weights.count();
    return elements * static_cast<int64_t>(sizeof(float)) * (3 + 2 * histories_);
  }

 private:
  TensorView At(int blob, int tensor) {
    return tensors_[static_cast<size_t>(blob * (histories_ + 2) + tensor)].view();
  }

  int histories_;
  std::vector<Tensor> tensors_;
  std::vector<std::vector<TensorView>> views_;
  std::vector<BlobUpdate> updates_;
};

void RunRule(benchmark::State& state, const UpdateRule& rule) {
  Memory memory(rule.histories);
  const SolverParameter param;
  const ExecContext context(static_cast<int>(state.range(0)));
  int64_t iteration = 0;
  for (auto _ : state) {
    const int64_t broken = rule.apply({.context = context,
                                       .param = param,
                                       .iteration = iteration++,
                                       .blobs = memory.updates(),
                                       .momentum = MomentumAt(rule, param, 0)});
    benchmark::DoNotOptimize(broken);
  }
  state.SetBytesProcessed(state.iterations() * memory.bytes());
}

CREMA_MULTIVERSION void PlainSgd(int64_t count, float* w, const float* g, float* h) {
#pragma GCC ivdep
  for (int64_t i = 0; i < count; ++i) {
    h[i] = 0.9F * h[i] + 1e-6F * (g[i] + 1e-4F * w[i]);
    w[i] -= h[i];
  }
}

void RunPlain(benchmark::State& state) {
  Memory memory(1);
  for (auto _ : state) {
    for (const BlobUpdate& update : memory.updates()) {
      PlainSgd(update.weights.count(), update.weights.data<float>(), update.gradient.data<float>(),
               update.history[0].data<float>());
    }
  }
  state.SetBytesProcessed(state.iterations() * memory.bytes());
}

void RegisterAll() {
  benchmark::RegisterBenchmark("plain", RunPlain)->Arg(1)->Unit(benchmark::kMillisecond);
  for (const UpdateRule& rule : UpdateRules()) {
    auto* bench = benchmark::RegisterBenchmark(
        rule.name.c_str(), [&rule](benchmark::State& state) { RunRule(state, rule); });
    bench->Unit(benchmark::kMillisecond)->UseRealTime();
    for (int threads = 1; threads <= AvailableProcessors(); threads *= 2) bench->Arg(threads);
  }
}

const bool kRegistered = [] {
  RegisterAll();
  return true;
}();

}  // namespace
