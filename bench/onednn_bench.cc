// Layers that have, or could have, a oneDNN implementation: native code and oneDNN's primitive with
// its preferred layouts, its weights packed before. Arguments are sizes, the last one is the number
// of threads. Best run with --benchmark_enable_random_interleaving --benchmark_repetitions=5
// --benchmark_report_aggregates_only.
#include <benchmark/benchmark.h>
#include <google/protobuf/text_format.h>

#include <memory>
#include <string>
#include <vector>

#include "core/parallel_for.h"
#include "crema.pb.h"
#include "graph/registry.h"
#include "math/gemm.h"
#include "math/softmax.h"
#include "onednn_calls.h"

namespace {

using namespace crema;         // NOLINT: a program, not a library
using namespace crema::bench;  // NOLINT

void Time(benchmark::State& state, int64_t operations, int64_t bytes, auto&& body) {
  body();
  for (auto _ : state) body();
  const auto rate = [&](int64_t count) {
    return benchmark::Counter(1e-9 * static_cast<double>(count),
                              benchmark::Counter::kIsIterationInvariantRate);
  };
  if (operations > 0) state.counters["GFLOP/s"] = rate(operations);
  if (bytes > 0) state.counters["GB/s"] = rate(bytes);
}

int Threads(const benchmark::State& state, int index) {
  const auto threads = static_cast<int>(state.range(index));
  UseThreads(threads);
  return threads;
}

// The native forward pass of one layer.
class NativeLayer {
 public:
  NativeLayer(const std::string& type, const std::string& fields, const std::vector<Shape>& inputs,
              int threads)
      : context_(threads) {
    static const Registry registry = BuiltinRegistry();
    LayerParameter param;
    google::protobuf::TextFormat::ParseFromString(fields, &param);
    param.set_type(type);
    layer_ = registry.Find(type)->make(param);
    for (const Shape& shape : inputs) specs_.push_back({shape, DType::kF32});
    const InferContext infer{.phase = TEST, .inputs = specs_, .output_count = 1};
    const LayerInfo info = layer_->Infer(infer);
    for (const Shape& shape : inputs) inputs_.push_back(Add(shape, 1));
    outputs_ = {Add(info.outputs[0].shape, 0)};
    for (const ParameterInfo& blob : info.parameters) parameters_.push_back(Add(blob.shape, 0.01F));
    saved_.resize(info.saved.size());
    scratch_.resize(layer_->ForwardScratch(infer, info, threads) + 1);
  }
  void operator()() {
    layer_->Forward({context_, TEST, 1, inputs_, outputs_, parameters_, saved_, scratch_, nullptr});
  }

 private:
  TensorView Add(const Shape& shape, float value) {
    tensors_.push_back(std::make_unique<Tensor>(shape, DType::kF32));
    for (float& x : tensors_.back()->view().span<float>()) x = value;
    return tensors_.back()->view();
  }

  ExecContext context_;
  std::unique_ptr<const Layer> layer_;
  std::vector<BlobSpec> specs_;
  std::vector<std::byte> scratch_;
  std::vector<std::unique_ptr<Tensor>> tensors_;
  std::vector<ConstTensorView> inputs_, parameters_;
  std::vector<TensorView> outputs_, saved_;
};

void InnerProductNative(benchmark::State& state) {
  const int64_t m = state.range(0), n = state.range(1), k = state.range(2);
  NativeLayer layer("InnerProduct", "inner_product_param { num_output: " + std::to_string(n) + " }",
                    {{m, k}}, Threads(state, 3));
  Time(state, 2 * m * n * k, 4 * (n * k + m * k + m * n), layer);
}
void InnerProductOneDnn(benchmark::State& state) {
  const int64_t m = state.range(0), n = state.range(1), k = state.range(2);
  Threads(state, 3);
  Time(state, 2 * m * n * k, 4 * (n * k + m * k + m * n), InnerProductCall(m, n, k));
}

void SoftmaxNative(benchmark::State& state) {
  const SoftmaxSize sizes{state.range(0), state.range(1), state.range(2)};
  const auto count = static_cast<size_t>(sizes.outer * sizes.classes * sizes.inner);
  const int threads = Threads(state, 3);
  std::vector<float> x(count, 0.5F), y(count);
  Time(state, 0, static_cast<int64_t>(8 * count),
       [&] { SoftmaxForward(threads, sizes, x.data(), y.data()); });
}
void SoftmaxOneDnn(benchmark::State& state) {
  const int64_t count = state.range(0) * state.range(1) * state.range(2);
  Threads(state, 3);
  Time(state, 0, 8 * count, SoftmaxCall(state.range(0), state.range(1), state.range(2)));
}

// The two products of an attention head, for `batch` heads: m queries, n keys, k features.
void MatMulNative(benchmark::State& state) {
  const int64_t batch = state.range(0), m = state.range(1), n = state.range(2), k = state.range(3);
  const bool transposed = state.range(4) != 0;
  const int threads = Threads(state, 5);
  const auto count = [&](int64_t rows, int64_t columns) {
    return static_cast<size_t>(batch * rows * columns);
  };
  std::vector<float> a(count(m, k), 0.5F), b(count(k, n), 0.5F), c(count(m, n));
  Time(state, 2 * batch * m * n * k, 0, [&] {
    ParallelFor(threads, batch, 1, [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) {
        Gemm<float>(1, false, transposed, m, n, k, 1, a.data() + i * m * k, k, b.data() + i * k * n,
                    transposed ? k : n, 0, c.data() + i * m * n, n);
      }
    });
  });
}
void MatMulOneDnn(benchmark::State& state) {
  const int64_t batch = state.range(0), m = state.range(1), n = state.range(2), k = state.range(3);
  Threads(state, 5);
  Time(state, 2 * batch * m * n * k, 0, MatMulCall(batch, m, n, k, state.range(4) != 0));
}

// Steps, streams, features, hidden.
void RecurrentNative(benchmark::State& state, const std::string& type, int64_t gates) {
  const int64_t t = state.range(0), n = state.range(1), i = state.range(2), d = state.range(3);
  std::vector<Shape> inputs{{t, n, i}};
  if (type == "LSTM") inputs.push_back({t, n});
  NativeLayer layer(type, "recurrent_param { num_output: " + std::to_string(d) + " }", inputs,
                    Threads(state, 4));
  Time(state, 2 * t * n * gates * d * (i + d), 0, layer);
}
void LstmNative(benchmark::State& state) { RecurrentNative(state, "LSTM", 4); }
void GruNative(benchmark::State& state) { RecurrentNative(state, "GRU", 3); }
void LstmOneDnn(benchmark::State& state) {
  const int64_t t = state.range(0), n = state.range(1), i = state.range(2), d = state.range(3);
  Threads(state, 4);
  Time(state, 2 * t * n * 4 * d * (i + d), 0, LstmCall(t, n, i, d));
}
void GruOneDnn(benchmark::State& state) {
  const int64_t t = state.range(0), n = state.range(1), i = state.range(2), d = state.range(3);
  Threads(state, 4);
  Time(state, 2 * t * n * 3 * d * (i + d), 0, GruCall(t, n, i, d));
}

void Products(benchmark::internal::Benchmark* b) {
  for (const int64_t threads : {1, 2}) {
    b->Args({1, 4096, 9216, threads})->Args({1, 1000, 2048, threads});
    b->Args({2, 1000, 2048, threads})
        ->Args({8, 1000, 2048, threads})
        ->Args({16, 1000, 2048, threads})
        ->Args({32, 1000, 2048, threads})
        ->Args({16, 500, 100, threads})
        ->Args({64, 500, 800, threads})
        ->Args({64, 4096, 4096, threads});
  }
  b->UseRealTime()->Unit(benchmark::kMicrosecond);
}
void Classes(benchmark::internal::Benchmark* b) {
  for (const int64_t threads : {1, 2}) {
    b->Args({1, 1000, 1, threads})->Args({64, 10, 1, threads})->Args({64, 1000, 1, threads});
    b->Args({1, 21, 500 * 500, threads})->Args({2, 64, 784, threads});
    b->Args({512, 128, 1, threads})->Args({8732, 21, 1, threads});
  }
  b->UseRealTime()->Unit(benchmark::kMicrosecond);
}
void Sequences(benchmark::internal::Benchmark* b) {
  for (const int64_t threads : {1, 2}) {
    b->Args({20, 1, 256, 256, threads})->Args({20, 16, 256, 256, threads});
    b->Args({20, 100, 1000, 1000, threads})->Args({40, 32, 128, 64, threads});
  }
  b->UseRealTime()->Unit(benchmark::kMicrosecond);
}

void Heads(benchmark::internal::Benchmark* b) {
  for (const int64_t threads : {1, 2}) {
    for (const int64_t length : {50, 197, 512}) {
      b->Args({12, length, length, 64, 1, threads});  // q k^T
      b->Args({12, length, 64, length, 0, threads});  // p v
    }
  }
  b->UseRealTime()->Unit(benchmark::kMicrosecond);
}

BENCHMARK(MatMulNative)->Apply(Heads);
BENCHMARK(MatMulOneDnn)->Apply(Heads);
BENCHMARK(InnerProductNative)->Apply(Products);
BENCHMARK(InnerProductOneDnn)->Apply(Products);
BENCHMARK(SoftmaxNative)->Apply(Classes);
BENCHMARK(SoftmaxOneDnn)->Apply(Classes);
BENCHMARK(LstmNative)->Apply(Sequences);
BENCHMARK(LstmOneDnn)->Apply(Sequences);
BENCHMARK(GruNative)->Apply(Sequences);
BENCHMARK(GruOneDnn)->Apply(Sequences);

}  // namespace
