#include "runtime/implementation_bench.h"

#include <sys/resource.h>

#include <algorithm>
#include <limits>
#include <memory>

#include "core/exec_context.h"
#include "core/rng.h"
#include "core/tensor.h"

namespace crema {
namespace {

using Clock = std::chrono::steady_clock;

// Counted runs of each implementation: at least this many, and more while they take less than
// kEnough.
constexpr int kFewestRuns = 3;
constexpr int kMostRuns = 8;
constexpr std::chrono::duration<double> kEnough(0.05);
constexpr int kMostRounds = 16;  // including disturbed ones
// Context switches per second at which a run still counts; a program that computes at the same time
// causes hundreds.
constexpr double kMostSwitches = 40;
constexpr int64_t kCacheBytes = int64_t{32} << 20;  // more than the cache of a current core

bool At(const std::vector<bool>& flags, size_t i) { return i < flags.size() && flags[i]; }

// Memory of a blob of any layout, whose views are made manually.
class Blob {
 public:
  explicit Blob(const BlobSpec& spec)
      : spec_(spec), memory_(Shape{std::max<int64_t>(StoredCount(spec), 1)}, StoredType(spec)) {}

  TensorView view() { return {memory_.view().raw(), spec_.shape, StoredType(spec_)}; }
  // Loads it into the cache.
  void Touch() {
    constexpr size_t kLine = 64;
    const auto* bytes = static_cast<const volatile std::byte*>(memory_.view().raw());
    for (size_t i = 0; i < memory_.view().bytes(); i += kLine) static_cast<void>(bytes[i]);
  }

  // Fills it with values around 1: no denormals, no infinities, and variances are positive.
  void Fill(uint64_t seed) {
    const RandomStream stream(seed, 1);
    const int64_t count = memory_.shape().count();
    if (memory_.dtype() != DType::kF32) return;  // zeros
    float* values = memory_.view().data<float>();
    constexpr int64_t kDrawn = 1 << 12;
    for (int64_t i = 0; i < std::min(count, kDrawn); ++i) {
      values[i] = static_cast<float>(0.5 + stream.Uniform(static_cast<uint64_t>(i)));
    }
    for (int64_t i = kDrawn; i < count; ++i) values[i] = values[i - kDrawn];
  }

 private:
  BlobSpec spec_;
  Tensor memory_;
};

using Blobs = std::vector<Blob>;

Blobs BlobsOf(std::span<const BlobSpec> specs, uint64_t seed) {
  Blobs blobs;
  blobs.reserve(specs.size());
  for (const BlobSpec& spec : specs) blobs.emplace_back(spec).Fill(seed++);
  return blobs;
}

// Returns blobs for the inputs of an implementation.
Blobs InputsOf(const Implementation& implementation, std::span<const BlobSpec> specs,
               uint64_t seed) {
  std::vector<BlobSpec> formatted(specs.begin(), specs.end());
  for (size_t i = 0; i < specs.size(); ++i) formatted[i].format = implementation.InputFormat(i);
  return BlobsOf(formatted, seed);
}

// Returns such blobs in another format.
Blobs BlobsIn(MemoryFormat format, std::span<const BlobSpec> specs, uint64_t seed) {
  std::vector<BlobSpec> formatted(specs.begin(), specs.end());
  for (BlobSpec& spec : formatted) spec.format = format;
  return BlobsOf(formatted, seed);
}

std::vector<BlobSpec> ParameterSpecs(const OpDesc& query) {
  std::vector<BlobSpec> specs;
  for (const ParameterInfo& blob : query.info.parameters) {
    specs.push_back({blob.shape, query.context.dtype});
  }
  return specs;
}

template <typename View>
std::vector<View> ViewsOf(Blobs* blobs) {
  std::vector<View> views;
  for (Blob& blob : *blobs) views.push_back(blob.view());
  return views;
}

void Touch(Blobs* blobs) {
  for (Blob& blob : *blobs) blob.Touch();
}

// One implementation with its tensors.
class ImplementationRun {
 public:
  ImplementationRun(const OpDesc& query, const Implementation& implementation)
      : info_(implementation.Info(query)),
        query_(query.With(query.context, info_)),
        implementation_(implementation),
        context_(query.threads),
        inputs_(InputsOf(implementation, query.context.inputs, 1)),
        outputs_(BlobsIn(implementation.output_format, query.info.outputs, 100)),
        parameters_(BlobsOf(ParameterSpecs(query), 200)) {
    implementation_state_ = implementation.MakeState(query_);
    state_ = query.layer.MakeState(context_, query.context.phase);
    const Needs needs = implementation.NeedsOf(query_);
    const size_t scratch = std::max(needs.forward_scratch, needs.backward_scratch);
    if (query.backward) {
      saved_ = BlobsOf(info_.saved, 300);
      output_grads_ = BlobsIn(implementation.output_format, query.info.outputs, 400);
      if (query.to_input) input_grads_ = InputsOf(implementation, query.context.inputs, 500);
      parameter_grads_ = BlobsOf(ParameterSpecs(query), 600);
    }
    scratch_ = Tensor(Shape{static_cast<int64_t>(scratch / sizeof(float)) + 1}, DType::kF32);
  }

  double Forward() {
    const std::vector<ConstTensorView> inputs = ViewsOf<ConstTensorView>(&inputs_);
    const std::vector<TensorView> outputs = ViewsOf<TensorView>(&outputs_);
    const std::vector<ConstTensorView> parameters = ViewsOf<ConstTensorView>(&parameters_);
    std::vector<TensorView> saved = ViewsOf<TensorView>(&saved_);
    saved.resize(info_.saved.size());
    const std::vector<TensorView> statistics(parameters.size());
    const ForwardArgs args{.context = context_,
                           .phase = query_.context.phase,
                           .layer_id = 1,
                           .inputs = inputs,
                           .outputs = outputs,
                           .parameters = parameters,
                           .saved = saved,
                           .scratch = Scratch(),
                           .state = state_.get(),
                           .statistics = statistics,
                           .implementation_state = implementation_state_.get(),
                           .weights_fixed = !query_.backward};
    Touch(&inputs_);
    const Clock::time_point start = Clock::now();
    implementation_.Forward(query_.layer, args);
    return SecondsSince(start);
  }

  double Backward() {
    const LayerInfo& info = info_;
    std::vector<ConstTensorView> inputs = ViewsOf<ConstTensorView>(&inputs_);
    std::vector<ConstTensorView> outputs = ViewsOf<ConstTensorView>(&outputs_);
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (!At(info.backward_reads_input, i)) inputs[i] = ShapeOnly(inputs[i]);
    }
    for (size_t o = 0; o < outputs.size(); ++o) {
      if (!At(info.backward_reads_output, o)) outputs[o] = ShapeOnly(outputs[o]);
    }
    std::vector<TensorView> input_grads = ViewsOf<TensorView>(&input_grads_);
    input_grads.resize(inputs.size());
    for (size_t i = 0; i < input_grads.size(); ++i) {
      if (At(info.gradient_forbidden, i)) input_grads[i] = {};
    }
    const std::vector<ConstTensorView> output_grads = ViewsOf<ConstTensorView>(&output_grads_);
    const std::vector<ConstTensorView> parameters = ViewsOf<ConstTensorView>(&parameters_);
    std::vector<TensorView> parameter_grads = ViewsOf<TensorView>(&parameter_grads_);
    for (size_t i = 0; i < parameter_grads.size(); ++i) {
      if (info.parameters[i].statistic) parameter_grads[i] = {};
    }
    const std::vector<ConstTensorView> saved = ViewsOf<ConstTensorView>(&saved_);
    const BackwardArgs args{.context = context_,
                            .phase = query_.context.phase,
                            .layer_id = 1,
                            .inputs = inputs,
                            .outputs = outputs,
                            .output_grads = output_grads,
                            .input_grads = input_grads,
                            .parameters = parameters,
                            .parameter_grads = parameter_grads,
                            .saved = saved,
                            .scratch = Scratch(),
                            .state = state_.get(),
                            .implementation_state = implementation_state_.get()};
    Touch(&output_grads_);
    const Clock::time_point start = Clock::now();
    implementation_.Backward(query_.layer, args);
    return SecondsSince(start);
  }

 private:
  static ConstTensorView ShapeOnly(const ConstTensorView& view) {
    return {nullptr, view.shape(), view.dtype()};
  }
  static double SecondsSince(Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
  }
  std::span<std::byte> Scratch() {
    return {static_cast<std::byte*>(scratch_.view().raw()), scratch_.view().bytes()};
  }

  const LayerInfo info_;  // with this implementation
  const OpDesc query_;
  const Implementation& implementation_;
  ExecContext context_;
  Blobs inputs_;
  Blobs outputs_;
  Blobs parameters_;
  Blobs saved_;
  Blobs output_grads_;
  Blobs input_grads_;
  Blobs parameter_grads_;
  Tensor scratch_;
  std::unique_ptr<ImplementationState> implementation_state_;
  std::unique_ptr<LayerSessionState> state_;
};

// Returns the number of involuntary context switches of this process.
int64_t Switches() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_nivcsw;
}

// The least time of one pass of one implementation.
struct Least {
  DisturbedRuns disturbed = DisturbedRuns::kLeaveOut;
  double seconds = std::numeric_limits<double>::infinity();
  int runs = 0;

  template <typename Body>
  void Add(Body&& run) {
    const int64_t before = Switches();
    const double took = run();
    const auto switches = static_cast<double>(Switches() - before);
    if (disturbed == DisturbedRuns::kLeaveOut && switches > kMostSwitches * took) return;
    seconds = std::min(seconds, took);
    ++runs;
  }
};

std::vector<double> TimeInTurns(const OpDesc& query,
                                std::span<const Implementation* const> implementations,
                                Clock::time_point deadline, DisturbedRuns disturbed) {
  std::vector<std::unique_ptr<ImplementationRun>> runs;
  for (const Implementation* implementation : implementations) {
    runs.push_back(std::make_unique<ImplementationRun>(query, *implementation));
    runs.back()->Forward();  // creates one-time resources
    if (query.backward) runs.back()->Backward();
    if (Clock::now() > deadline) return {};
  }
  Blob cache({Shape{kCacheBytes / 4}, DType::kF32});
  std::vector<Least> forward(implementations.size(), Least{.disturbed = disturbed});
  std::vector<Least> backward(implementations.size(), Least{.disturbed = disturbed});
  const auto fewest = [&] {
    int least = std::ranges::min(forward, {}, &Least::runs).runs;
    if (query.backward) least = std::min(least, std::ranges::min(backward, {}, &Least::runs).runs);
    return least;
  };
  const Clock::time_point start = Clock::now();
  for (int round = 0; round < kMostRounds && fewest() < kMostRuns; ++round) {
    const Clock::time_point now = Clock::now();
    if (now > deadline || (fewest() >= kFewestRuns && now - start > kEnough)) break;
    for (size_t r = 0; r < runs.size(); ++r) {
      cache.Touch();
      forward[r].Add([&] { return runs[r]->Forward(); });
      if (!query.backward) continue;
      cache.Touch();
      backward[r].Add([&] { return runs[r]->Backward(); });
    }
  }
  if (fewest() == 0) return {};
  std::vector<double> seconds;
  for (size_t r = 0; r < runs.size(); ++r) {
    seconds.push_back(forward[r].seconds + (query.backward ? backward[r].seconds : 0));
  }
  return seconds;
}

}  // namespace

std::vector<double> TimeImplementations(const OpDesc& query,
                                        std::span<const Implementation* const> implementations,
                                        Clock::time_point deadline, DisturbedRuns disturbed) {
  try {
    return TimeInTurns(query, implementations, deadline, disturbed);
  } catch (const Error&) {
    return {};  // errors are reported when the net runs
  }
}

}  // namespace crema
