// The gradient of weights in bfloat16 beside oneDNN's, on convolutions of ResNet-50 and some of
// other nets: what the row does, from blobs in blocks of 16 channels to weights in the order of a
// caffemodel, which is added to. `of peak` is a fraction of the multiply-adds that a loop of
// nothing else does with vectors of bfloat16. Best run with --benchmark_enable_random_interleaving
// --benchmark_repetitions=5 --benchmark_report_aggregates_only.
#include <benchmark/benchmark.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <algorithm>
#include <chrono>
#include <vector>

#include "core/rng.h"
#include "math/bf16_weight_gradient.h"
#include "onednn_calls.h"

namespace {

using namespace crema;         // NOLINT: a program, not a library
using namespace crema::bench;  // NOLINT

constexpr int64_t kBatch = 8;
constexpr int64_t kLanes = 16;

#if defined(__x86_64__)
[[gnu::target("avx512f,avx512bf16")]] void MultiplyAdds(int64_t rounds, float* result) {
  constexpr int kChains = 12;  // that do not wait for each other
  __m512 sums[kChains];
#pragma GCC unroll 12
  for (int c = 0; c < kChains; ++c) sums[c] = _mm512_set1_ps(static_cast<float>(c));
  const auto factor = __builtin_bit_cast(__m512bh, _mm512_set1_ps(result[0]));
  for (int64_t i = 0; i < rounds; ++i) {
#pragma GCC unroll 12
    for (int c = 0; c < kChains; ++c) sums[c] = _mm512_dpbf16_ps(sums[c], factor, factor);
  }
#pragma GCC unroll 12
  for (int c = 1; c < kChains; ++c) sums[0] = _mm512_add_ps(sums[0], sums[c]);
  _mm512_storeu_ps(result, sums[0]);
}
constexpr int64_t kProductsOfRound = 12 * 32;
#else
void MultiplyAdds(int64_t, float*) {}
constexpr int64_t kProductsOfRound = 0;
#endif

// Returns the peak of one thread.
double PeakGflops() {
  constexpr int64_t kRounds = 1 << 20;
  static const double peak = [] {
    double best = 0;
    for (int run = 0; run < 12; ++run) {
      float result[kLanes] = {0.5F};
      const auto start = std::chrono::steady_clock::now();
      MultiplyAdds(kRounds, result);
      benchmark::DoNotOptimize(result[0]);
      const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
      best = std::max(best, 2e-9 * kProductsOfRound * kRounds / seconds.count());
    }
    return best;
  }();
  return peak;
}

BlockedConvShape ShapeOf(const benchmark::State& state) {
  const int64_t in = state.range(2), kernel = state.range(3), stride = state.range(4);
  const int64_t pad = kernel / 2, out = (in + 2 * pad - kernel) / stride + 1;
  const BlockedConvShape::Axis axis{in, out, kernel, stride, pad, 1};
  return {kBatch, 1, state.range(0), state.range(1), axis, axis};
}

struct Case {
  explicit Case(const benchmark::State& state)
      : shape(ShapeOf(state)),
        threads(static_cast<int>(state.range(5))),
        x(Random(shape.in_channels * shape.h.in * shape.w.in)),
        dy(Random(shape.out_channels * shape.h.out * shape.w.out)),
        dweight(static_cast<size_t>(shape.WeightCount())) {
    UseThreads(threads);
  }
  static std::vector<BFloat16> Random(int64_t image) {
    const RandomStream random(1, 2);
    std::vector<BFloat16> values(static_cast<size_t>(kBatch * image));
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = static_cast<float>(2 * random.Uniform(i) - 1);
    }
    return values;
  }
  void Count(benchmark::State& state) const {
    const int64_t products = kBatch * shape.h.out * shape.w.out * shape.WeightCount();
    const auto rate = [](double count) {
      return benchmark::Counter(count, benchmark::Counter::kIsIterationInvariantRate);
    };
    const double giga = 2e-9 * static_cast<double>(products);
    state.counters["GFLOP/s"] = rate(giga);
    state.counters["of peak"] = rate(giga / (PeakGflops() * threads));
  }

  BlockedConvShape shape;
  int threads;
  std::vector<BFloat16> x, dy;
  std::vector<float> dweight;
};

void Own(benchmark::State& state, BF16Unit unit) {
  if (!HasBF16Unit(unit)) return state.SkipWithError("not on this processor");
  Case c(state);
  std::vector<std::byte> scratch(BF16WeightGradientScratch(c.shape, c.threads));
  for (auto _ : state) {
    BF16WeightGradient(unit, c.shape, c.threads, c.x.data(), c.dy.data(), c.dweight.data(),
                       scratch);
  }
  c.Count(state);
}
void Vectors(benchmark::State& state) { Own(state, BF16Unit::kVectors); }
void Tiles(benchmark::State& state) { Own(state, BF16Unit::kTiles); }

dnnl::convolution_backward_weights::primitive_desc DescribeOneDnn(const BlockedConvShape& s) {
  using Type = memory::data_type;
  const memory::desc x({s.batch, s.in_channels, s.h.in, s.w.in}, Type::bf16, Tag::nChw16c);
  const memory::desc y({s.batch, s.out_channels, s.h.out, s.w.out}, Type::bf16, Tag::nChw16c);
  const Dims filters{s.out_channels, s.in_channels, s.h.kernel, s.w.kernel};
  const memory::desc weight(filters, Type::bf16, Tag::any), gradient(filters, Type::f32, Tag::any);
  const Dims strides{s.h.stride, s.w.stride}, before{s.h.pad, s.w.pad};
  const auto after_of = [](const BlockedConvShape::Axis& a) {
    return (a.out - 1) * a.stride + a.kernel - a.in - a.pad;
  };
  const Dims after{after_of(s.h), after_of(s.w)};
  constexpr auto kDirect = dnnl::algorithm::convolution_direct;
#if DNNL_VERSION_MAJOR >= 3
  const dnnl::convolution_forward::primitive_desc forward(
      Engine(), dnnl::prop_kind::forward_training, kDirect, x, weight, y, strides, before, after);
  return {Engine(), kDirect, x, gradient, y, strides, before, after, forward};
#else
  const dnnl::convolution_forward::primitive_desc forward(
      {dnnl::prop_kind::forward_training, kDirect, x, weight, y, strides, before, after}, Engine());
  return {{kDirect, x, gradient, y, strides, before, after}, Engine(), forward};
#endif
}

Call AddTo(const memory& from, const memory& to) {
  dnnl::post_ops ops;
  ops.append_sum(1);
  dnnl::primitive_attr attributes;
  attributes.set_post_ops(ops);
  const dnnl::reorder::primitive_desc desc(Engine(), from.get_desc(), Engine(), to.get_desc(),
                                           attributes);
  return {dnnl::reorder(desc), {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}}};
}

void OneDnn(benchmark::State& state) {
  Case c(state);
  const auto desc = DescribeOneDnn(c.shape);
  const memory gradient(desc.diff_weights_desc(), Engine());
  Call multiply(dnnl::convolution_backward_weights(desc),
                {{DNNL_ARG_SRC, memory(desc.src_desc(), Engine(), c.x.data())},
                 {DNNL_ARG_DIFF_DST, memory(desc.diff_dst_desc(), Engine(), c.dy.data())},
                 {DNNL_ARG_DIFF_WEIGHTS, gradient}});
  const BlockedConvShape& s = c.shape;
  const memory::desc plain =
      F32({s.out_channels, s.in_channels, s.h.kernel, s.w.kernel}, Tag::oihw);
  Call add = AddTo(gradient, memory(plain, Engine(), c.dweight.data()));
  for (auto _ : state) {
    multiply();
    add();
  }
  c.Count(state);
  state.SetLabel(desc.impl_info_str());
}

void Shapes(benchmark::internal::Benchmark* bench) {
  const std::vector<std::vector<int64_t>> shapes = {
      {64, 64, 56, 1, 1},     {64, 64, 56, 3, 1},    {64, 256, 56, 1, 1},   {256, 64, 56, 1, 1},
      {256, 128, 56, 1, 2},   {128, 128, 28, 3, 1},  {128, 512, 28, 1, 1},  {256, 512, 56, 1, 2},
      {512, 128, 28, 1, 1},   {512, 256, 28, 1, 2},  {256, 256, 14, 3, 1},  {256, 1024, 14, 1, 1},
      {512, 1024, 28, 1, 2},  {1024, 256, 14, 1, 1}, {1024, 512, 14, 1, 2}, {512, 512, 7, 3, 1},
      {1024, 2048, 14, 1, 2}, {512, 2048, 7, 1, 1},  {2048, 512, 7, 1, 1},  // ResNet-50
      {192, 16, 28, 1, 1},    {16, 32, 28, 5, 1},    {96, 208, 14, 3, 1},   // GoogLeNet
      {16, 64, 55, 1, 1},                                                   // SqueezeNet
      {128, 128, 56, 3, 2},   {64, 128, 112, 3, 1}};                        // VGG's and others
  for (const int64_t threads : {1, 2}) {
    for (std::vector<int64_t> shape : shapes) {
      shape.push_back(threads);
      bench->Args(shape);
    }
  }
  bench->ArgNames({"channels", "outputs", "size", "kernel", "stride", "threads"});
  bench->Unit(benchmark::kMillisecond)->UseRealTime();
}

BENCHMARK(Vectors)->Apply(Shapes);
BENCHMARK(Tiles)->Apply(Shapes);
BENCHMARK(OneDnn)->Apply(Shapes);

}  // namespace
