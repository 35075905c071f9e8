// Kernels of our own beside those of oneDNN, and how much of the machine they use: `of peak` is a
// fraction of the multiply-adds that a loop of nothing else does, `of memory` one of the bytes a
// second of a = b + s * c on arrays far larger than the cache (blobs that fit the cache can exceed
// it). The argument is the number of threads; times are those of the processor. Best run
// with --benchmark_enable_random_interleaving
// --benchmark_repetitions=5 --benchmark_report_aggregates_only.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <vector>

#include "core/parallel_for.h"
#include "crema.pb.h"
#include "graph/registry.h"
#include "math/blocked_batch_norm.h"
#include "math/blocked_conv.h"
#include "math/blocked_lrn.h"
#include "math/blocked_pool.h"
#include "math/cpu/lanes.h"
#include "math/depthwise_conv.h"
#include "math/packed_conv.h"
#include "math/softmax.h"
#include "math/vectorize.h"
#include "onednn_calls.h"
#include "onednn_norms.h"
#include "runtime/roofline.h"

namespace {

using namespace crema;         // NOLINT: a program, not a library
using namespace crema::bench;  // NOLINT

constexpr int kLanes = 16;
constexpr int kChains = 12;  // multiply-adds that do not wait for each other

CREMA_MULTIVERSION void MultiplyAdds(int64_t rounds, float* result) {
  using L = Lanes<kLanes>;
  L::Floats sums[kChains], factor, more;
  L::Load(result, &factor);
  L::Load(result, &more);
  for (int c = 0; c < kChains; ++c) sums[c] = more * static_cast<float>(c);  // all different
  for (int64_t i = 0; i < rounds; ++i) {
    for (auto& sum : sums) sum = sum * factor + more;
  }
  for (int c = 1; c < kChains; ++c) sums[0] += sums[c];
  L::Store(sums[0], result);
}

double MeasureGflops(int threads) {
  constexpr int64_t kRounds = 1 << 21;
  double best = 0;
  for (int run = 0; run < 12; ++run) {
    const auto start = std::chrono::steady_clock::now();
    ParallelFor(threads, threads, 1, [&](int64_t, int64_t, int) {
      float result[kLanes] = {0.5F, 0.25F};
      MultiplyAdds(kRounds, result);
      benchmark::DoNotOptimize(result[0]);
    });
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    best = std::max(best, 2e-9 * kLanes * kChains * kRounds * threads / seconds.count());
  }
  return best;
}

const Roofline& Peak(int threads) {
  static std::map<int, Roofline> peaks;
  if (!peaks.contains(threads)) {
    peaks[threads] = {MeasureGflops(threads), MeasurePeakGbs(threads)};
  }
  return peaks[threads];
}

int Threads(const benchmark::State& state) {
  const auto threads = static_cast<int>(state.range(0));
  UseThreads(threads);
  return threads;
}

void Time(benchmark::State& state, int64_t operations, int64_t bytes, auto&& body) {
  const Roofline& peak = Peak(Threads(state));
  body();
  for (auto _ : state) body();
  const auto rate = [](double count) {
    return benchmark::Counter(count, benchmark::Counter::kIsIterationInvariantRate);
  };
  if (operations > 0) {
    state.counters["of peak"] = rate(1e-9 * static_cast<double>(operations) / peak.gflops);
  }
  if (bytes > 0) state.counters["of memory"] = rate(1e-9 * static_cast<double>(bytes) / peak.gbs);
}

// Aligned to cache lines, as the tensors of a net are.
class Floats {
 public:
  explicit Floats(int64_t count, float value = 0.5F)
      : storage_(static_cast<size_t>(count) + 16, value) {}
  float* data() {
    void* start = storage_.data();
    size_t room = storage_.size() * sizeof(float);
    return static_cast<float*>(std::align(64, (storage_.size() - 16) * sizeof(float), start, room));
  }

 private:
  std::vector<float> storage_;
};

void PeakFlops(benchmark::State& state) {
  for (auto _ : state) state.counters["GFLOP/s"] = MeasureGflops(Threads(state));
}
void PeakBytes(benchmark::State& state) {
  for (auto _ : state) state.counters["GB/s"] = MeasurePeakGbs(Threads(state));
}

void Softmax(benchmark::State& state, const SoftmaxSize& sizes) {
  const int64_t count = sizes.outer * sizes.classes * sizes.inner;
  Floats x(count), y(count);
  const int threads = Threads(state);
  Time(state, 0, 8 * count, [&] { SoftmaxForward(threads, sizes, x.data(), y.data()); });
}
void SoftmaxRows(benchmark::State& state) { Softmax(state, {64, 1000, 1}); }
void SoftmaxRowsOneDnn(benchmark::State& state) {
  Time(state, 0, 8 * 64 * 1000, SoftmaxCall(64, 1000, 1));
}
void SoftmaxPixels(benchmark::State& state) { Softmax(state, {1, 21, 500 * 500}); }
void SoftmaxPixelsOneDnn(benchmark::State& state) {
  Time(state, 0, 8 * 21 * 500 * 500, SoftmaxCall(1, 21, 500 * 500));
}

// CaffeNet's first: 96 channels of 55 x 55.
constexpr int64_t kLrnCount = 4 * 96 * 55 * 55;
void LrnOwn(benchmark::State& state) {
  Floats x(kLrnCount), y(kLrnCount), scratch(BlockedLrnScratch(96) * 16);
  const int threads = Threads(state);
  const LrnShape shape{96, 55, 55};
  Time(state, 0, 8 * kLrnCount,
       [&] { BlockedLrn(threads, 4, shape, {.alpha = 1e-4}, x.data(), y.data(), scratch.data()); });
}
void LrnOneDnn(benchmark::State& state) { Time(state, 0, 8 * kLrnCount, LrnCall(4, 96, 55)); }

void LrnTrainingOneDnn(benchmark::State& state) {
  Threads(state);
  Time(state, 0, 16 * kLrnCount, LrnTraining(4, 96, 55).forward);
}
void LrnBackwardOwn(benchmark::State& state) {
  Floats x(kLrnCount), dy(kLrnCount), dx(kLrnCount), scratch(BlockedLrnScratch(96) * 16);
  const int threads = Threads(state);
  Time(state, 0, 12 * kLrnCount, [&] {
    BlockedLrnBackward(threads, 4, {96, 55, 55}, {.alpha = 1e-4}, x.data(), dy.data(), dx.data(),
                       scratch.data());
  });
}
void LrnBackwardOneDnn(benchmark::State& state) {
  Threads(state);
  LrnTraining lrn(4, 96, 55);
  lrn.forward();
  Time(state, 0, 20 * kLrnCount, lrn.backward);
}

constexpr ChannelBlocks kNormBlocks{4, 256, 28 * 28};
void BatchNormOwn(benchmark::State& state, bool stored) {
  const int64_t count = kNormBlocks.Count(), channels = kNormBlocks.channels;
  Floats x(count), y(count), center(channels), factor(channels), shift(channels);
  std::vector<double> moments(static_cast<size_t>(2 * channels)),
      scratch(static_cast<size_t>(ChannelSumsScratch(kNormBlocks)));
  const int threads = Threads(state);
  Time(state, 0, (stored ? 8 : 12) * count, [&] {
    if (!stored) {
      ChannelMoments(threads, kNormBlocks, x.data(), moments.data(), moments.data() + channels,
                     scratch.data());
    }
    NormalizeChannels(threads, kNormBlocks, x.data(), center.data(), factor.data(), shift.data(),
                      {}, y.data());
  });
}
void BatchNormOneDnn(benchmark::State& state, bool stored) {
  Threads(state);
  Time(state, 0, (stored ? 8 : 12) * kNormBlocks.Count(), BatchNormCall(stored, 4, 256, 28));
}
void StoredNormOwn(benchmark::State& state) { BatchNormOwn(state, true); }
void StoredNormOneDnn(benchmark::State& state) { BatchNormOneDnn(state, true); }
void BatchNormOwn(benchmark::State& state) { BatchNormOwn(state, false); }
void BatchNormOneDnn(benchmark::State& state) { BatchNormOneDnn(state, false); }

// Two blobs of 1024 x 14 x 14, in batches of 4.
constexpr int64_t kEltwiseCount = 4 * 1024 * 14 * 14;
void EltwiseOwn(benchmark::State& state, EltwiseParameter::EltwiseOp operation) {
  static const Registry registry = BuiltinRegistry();
  LayerParameter param;
  param.set_type("Eltwise");
  param.mutable_eltwise_param()->set_operation(operation);
  const std::unique_ptr<const Layer> layer = registry.Find("Eltwise")->make(param);
  Floats a(kEltwiseCount), b(kEltwiseCount, 0.25F), y(kEltwiseCount);
  const Shape shape{kEltwiseCount};
  const std::vector<ConstTensorView> inputs = {{a.data(), shape, DType::kF32},
                                               {b.data(), shape, DType::kF32}};
  const std::vector<TensorView> outputs = {{y.data(), shape, DType::kF32}}, saved(1);
  ExecContext context(Threads(state));
  Time(state, 0, 12 * kEltwiseCount, [&] {
    layer->Forward({context, TEST, 1, inputs, outputs, {}, saved, {}, nullptr});
  });
}
void EltwiseOneDnn(benchmark::State& state, dnnl::algorithm algorithm) {
  Threads(state);
  Time(state, 0, 12 * kEltwiseCount, BinaryCall(algorithm, kEltwiseCount));
}
void SumOwn(benchmark::State& state) { EltwiseOwn(state, EltwiseParameter::SUM); }
void SumOneDnn(benchmark::State& state) { EltwiseOneDnn(state, dnnl::algorithm::binary_add); }
void ProductOwn(benchmark::State& state) { EltwiseOwn(state, EltwiseParameter::PROD); }
void ProductOneDnn(benchmark::State& state) { EltwiseOneDnn(state, dnnl::algorithm::binary_mul); }
void MaxOwn(benchmark::State& state) { EltwiseOwn(state, EltwiseParameter::MAX); }
void MaxOneDnn(benchmark::State& state) { EltwiseOneDnn(state, dnnl::algorithm::binary_max); }

// ResNet's: 3 x 3 windows with stride 2 on 64 channels of 112 x 112.
constexpr int64_t kPoolIn = 4 * 64 * 112 * 112, kPoolOut = 4 * 64 * 56 * 56;
void MaxPoolOwn(benchmark::State& state) {
  Floats x(kPoolIn), y(kPoolOut);
  std::vector<uint8_t> index(kPoolOut);
  const int threads = Threads(state);
  const PoolAxis axis{.in = 112, .out = 56, .kernel = 3, .stride = 2};
  Time(state, 0, 4 * kPoolIn + 5 * kPoolOut, [&] {
    BlockedMaxPool(threads, {axis, axis}, 4 * 64 / ChannelBlock(), x.data(), y.data(),
                   index.data());
  });
}
void MaxPoolOneDnn(benchmark::State& state) {
  Time(state, 0, 4 * kPoolIn + 5 * kPoolOut, MaxPoolCall(4, 64, 112, 56));
}

struct Convolution {
  int64_t batch, channels, outputs, groups, size, kernel, stride;
  int64_t pad() const { return kernel / 2; }
  int64_t out() const { return (size + 2 * pad() - kernel) / stride + 1; }
  int64_t InCount() const { return batch * channels * size * size; }
  int64_t OutCount() const { return batch * outputs * out() * out(); }
  int64_t WeightCount() const { return outputs * channels / groups * kernel * kernel; }
  int64_t Operations() const { return 2 * OutCount() * channels / groups * kernel * kernel; }
  int64_t Bytes() const { return 4 * (InCount() + OutCount() + WeightCount()); }
  ConvWindow Window() const {
    ConvWindow window;
    window.axes = 2;
    for (size_t i = 0; i < 2; ++i) {
      window.in[i] = size;
      window.out[i] = out();
      window.kernel[i] = kernel;
      window.stride[i] = stride;
      window.pad[i] = pad();
      window.dilation[i] = 1;
    }
    return window;
  }
};
constexpr Convolution kDepthwise{4, 128, 128, 128, 56, 3, 1};
constexpr Convolution kFirst{4, 3, 64, 1, 224, 7, 2};

void ConvOneDnn(benchmark::State& state, const Convolution& c) {
  const BlockedConvShape::Axis axis{c.size, c.out(), c.kernel, c.stride, c.pad(), 1};
  BlockedConv conv({.shape = {c.batch, c.groups, c.channels, c.outputs, axis, axis},
                    .plain_input = c.channels < ChannelBlock(),
                    .bias = true,
                    .relu = {},
                    .threads = Threads(state)});
  Floats x(c.InCount()), y(c.OutCount()), weight(c.WeightCount()), bias(c.outputs);
  Floats scratch(static_cast<int64_t>(conv.ForwardScratch() / sizeof(float)));
  const ConvParameters parameters{.weight = weight.data(), .bias = bias.data()};
  Time(state, c.Operations(), c.Bytes(), [&] {
    conv.Forward(x.data(), parameters, nullptr, y.data(), true,
                 {reinterpret_cast<std::byte*>(scratch.data()), conv.ForwardScratch()});
  });
}

void DepthwiseOwn(benchmark::State& state) {
  const Convolution& c = kDepthwise;
  const DepthwiseShape shape(c.Window(), c.channels, c.outputs);
  Floats x(c.InCount()), y(c.OutCount()), weight(c.WeightCount()), bias(c.outputs);
  const int threads = Threads(state);
  std::vector<std::byte> scratch(DepthwiseForwardScratch(shape, c.batch, threads));
  Time(state, c.Operations(), c.Bytes(), [&] {
    DepthwiseForward(shape, c.batch, threads, x.data(), weight.data(), bias.data(), {}, y.data(),
                     scratch);
  });
}
void DepthwiseOneDnn(benchmark::State& state) { ConvOneDnn(state, kDepthwise); }

void FirstConvOwn(benchmark::State& state) {
  const Convolution& c = kFirst;
  const PackedConvShape shape(c.Window(), c.groups, c.channels, c.outputs);
  Floats x(c.InCount()), y(c.OutCount()), weight(c.WeightCount()), bias(c.outputs);
  const int threads = Threads(state);
  std::vector<std::byte> scratch(PackedConvForwardScratch(shape, c.batch, threads));
  Time(state, c.Operations(), c.Bytes(), [&] {
    PackedConvForward(shape, c.batch, threads, x.data(), weight.data(), bias.data(), {}, y.data(),
                      scratch);
  });
}
void FirstConvOneDnn(benchmark::State& state) { ConvOneDnn(state, kFirst); }

const bool kRegistered = [] {
  const auto add = [](const char* name, void (*run)(benchmark::State&)) {
    return benchmark::RegisterBenchmark(name, run)->Arg(1)->Unit(benchmark::kMicrosecond);
  };
  add("peak/multiply-adds", PeakFlops)->Iterations(1);
  add("peak/memory", PeakBytes)->Iterations(1);
  add("softmax 64x1000/own", SoftmaxRows);
  add("softmax 64x1000/oneDNN", SoftmaxRowsOneDnn);
  add("softmax 1x21x500x500/own", SoftmaxPixels);
  add("softmax 1x21x500x500/oneDNN", SoftmaxPixelsOneDnn);
  add("LRN 4x96x55x55/own, blocked", LrnOwn);
  add("LRN 4x96x55x55/oneDNN, blocked", LrnOneDnn);
  add("LRN 4x96x55x55/oneDNN, blocked, training", LrnTrainingOneDnn);
  add("LRN backward 4x96x55x55/own, blocked", LrnBackwardOwn);
  add("LRN backward 4x96x55x55/oneDNN, blocked", LrnBackwardOneDnn);
  add("BatchNorm stored 4x256x28x28/own, blocked", StoredNormOwn);
  add("BatchNorm stored 4x256x28x28/oneDNN, blocked", StoredNormOneDnn);
  add("BatchNorm training 4x256x28x28/own, blocked", BatchNormOwn);
  add("BatchNorm training 4x256x28x28/oneDNN, blocked", BatchNormOneDnn);
  add("sum 4x1024x14x14/own", SumOwn);
  add("sum 4x1024x14x14/oneDNN", SumOneDnn);
  add("product 4x1024x14x14/own", ProductOwn);
  add("product 4x1024x14x14/oneDNN", ProductOneDnn);
  add("maximum 4x1024x14x14/own", MaxOwn);
  add("maximum 4x1024x14x14/oneDNN", MaxOneDnn);
  add("max pooling 4x64x112x112/own, blocked", MaxPoolOwn);
  add("max pooling 4x64x112x112/oneDNN, blocked", MaxPoolOneDnn);
  add("depthwise 3x3 4x128x56x56/own, plain", DepthwiseOwn);
  add("depthwise 3x3 4x128x56x56/oneDNN, blocked", DepthwiseOneDnn);
  add("first 7x7 4x3x224x224/own, plain", FirstConvOwn);
  add("first 7x7 4x3x224x224/oneDNN, plain to blocked", FirstConvOneDnn);
  return true;
}();

}  // namespace
