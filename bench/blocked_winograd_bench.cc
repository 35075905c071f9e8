// 3 x 3 convolutions of known nets in channel blocks by Winograd's filtering and by oneDNN, with
// the filters ready in the layout that each wants. Arguments: batch, channels, outputs, height and
// width, threads. GFLOP/s count the sums of the definition, so that the two can be compared;
// Winograd's can exceed what the machine can multiply. `chosen` is BlockedWinogradPays. Best run
// with --benchmark_enable_random_interleaving --benchmark_repetitions=5.
#include <benchmark/benchmark.h>

#include <dnnl.hpp>
#include <memory>
#include <unordered_map>
#include <vector>

#ifdef _OPENMP
#include <omp.h>
#endif

#include "math/blocked_winograd.h"

namespace {

using namespace crema;  // NOLINT: a program, not a library

// Aligned to cache lines, as the tensors of a net are.
class Floats {
 public:
  Floats(size_t count, float value) : storage_(count + 16, value) {}
  float* data() {
    void* start = storage_.data();
    size_t room = storage_.size() * sizeof(float);
    return static_cast<float*>(std::align(64, (storage_.size() - 16) * sizeof(float), start, room));
  }

 private:
  std::vector<float> storage_;
};

struct Case {
  explicit Case(const benchmark::State& state)
      : batch(state.range(0)),
        threads(static_cast<int>(state.range(4))),
        shape(Window(state.range(3)), 1, state.range(1), state.range(2)),
        x(static_cast<size_t>(batch * shape.InImage()), 0.5F),
        y(static_cast<size_t>(batch * shape.OutImage()), 0.25F),
        weight(static_cast<size_t>(shape.WeightCount()), 0.01F),
        bias(static_cast<size_t>(shape.outputs), 0.1F) {}

  static ConvWindow Window(int64_t size) {
    ConvWindow window;
    window.axes = 2;
    for (size_t axis = 0; axis < 2; ++axis) {
      window.in[axis] = window.out[axis] = size;
      window.kernel[axis] = 3;
      window.stride[axis] = window.pad[axis] = window.dilation[axis] = 1;
    }
    return window;
  }

  int64_t batch;
  int threads;
  PackedConvShape shape;
  Floats x, y, weight, bias;
};

template <typename Body>
void Run(benchmark::State& state, const Case& c, Body&& body) {
  for (auto _ : state) body();
  const double operations =
      2.0 * static_cast<double>(c.batch * c.shape.OutImage() * c.shape.Depth());
  state.counters["GFLOP/s"] = benchmark::Counter(
      operations * 1e-9 * static_cast<double>(state.iterations()), benchmark::Counter::kIsRate);
}

Floats Transformed(Case& c, WinogradPass pass) {
  Floats filters(BlockedWinogradWeightBytes(c.shape, pass) / sizeof(float), 0);
  BlockedWinogradWeights(c.shape, pass, c.threads, c.weight.data(), nullptr, filters.data());
  return filters;
}

void SetChosen(benchmark::State& state, const Case& c, WinogradPass pass) {
  state.counters["chosen"] = BlockedWinogradPays(c.shape, pass, c.batch, c.threads, true) ? 1 : 0;
}

void WinogradForward(benchmark::State& state) {
  Case c(state);
  Floats filters = Transformed(c, WinogradPass::kForward);
  std::vector<std::byte> scratch(BlockedWinogradForwardScratch(c.shape, c.batch, c.threads));
  WinogradEpilogue epilogue;
  epilogue.bias = c.bias.data();
  epilogue.relu.on = true;
  SetChosen(state, c, WinogradPass::kForward);
  Run(state, c, [&] {
    BlockedWinogradForward(c.shape, c.batch, c.threads, c.x.data(), filters.data(), epilogue,
                           c.y.data(), scratch);
  });
}

void WinogradDataGradient(benchmark::State& state) {
  Case c(state);
  Floats filters = Transformed(c, WinogradPass::kDataGradient);
  std::vector<std::byte> scratch(BlockedWinogradDataGradientScratch(c.shape, c.batch, c.threads));
  SetChosen(state, c, WinogradPass::kDataGradient);
  Run(state, c, [&] {
    BlockedWinogradDataGradient(c.shape, c.batch, c.threads, c.y.data(), filters.data(), c.x.data(),
                                scratch);
  });
}

void WinogradWeightGradient(benchmark::State& state) {
  Case c(state);
  std::vector<std::byte> scratch(BlockedWinogradWeightGradientScratch(c.shape, c.batch, c.threads));
  SetChosen(state, c, WinogradPass::kWeightGradient);
  Run(state, c, [&] {
    BlockedWinogradWeightGradient(c.shape, c.batch, c.threads, c.x.data(), c.y.data(),
                                  c.weight.data(), scratch);
  });
}

// The additional work of training, which has new filters in each step.
void WinogradFilters(benchmark::State& state) {
  Case c(state);
  Floats filters = Transformed(c, WinogradPass::kForward);
  for (auto _ : state) {
    BlockedWinogradWeights(c.shape, WinogradPass::kForward, c.threads, c.weight.data(), nullptr,
                           filters.data());
  }
}

// oneDNN's convolutions of a case.
class Direct {
 public:
  explicit Direct(Case& c)
      : c_(c),
        x_({c.batch, c.shape.channels, c.shape.h.in, c.shape.w.in}, kF32, Tag::nChw16c),
        y_({c.batch, c.shape.outputs, c.shape.h.out, c.shape.w.out}, kF32, Tag::nChw16c),
        weight_({c.shape.outputs, c.shape.channels, 3, 3}, kF32, Tag::any),
        bias_({c.shape.outputs}, kF32, Tag::x) {
#ifdef _OPENMP
    omp_set_num_threads(c.threads);
#endif
  }

  dnnl::convolution_forward::primitive_desc ForwardDesc() const {
    dnnl::post_ops relu;
    relu.append_eltwise(1, dnnl::algorithm::eltwise_relu, 0, 0);
    dnnl::primitive_attr attributes;
    attributes.set_post_ops(relu);
    return {{dnnl::prop_kind::forward_inference, kDirect, x_, weight_, bias_, y_, kOne, kOne, kOne},
            attributes,
            engine_};
  }
  dnnl::convolution_backward_data::primitive_desc DataDesc() const {
    return {{kDirect, x_, weight_, y_, kOne, kOne, kOne}, engine_, Hint()};
  }
  dnnl::convolution_backward_weights::primitive_desc WeightDesc() const {
    return {{kDirect, x_, weight_, y_, kOne, kOne, kOne}, engine_, Hint()};
  }

  dnnl::memory X() const { return {x_, engine_, c_.x.data()}; }
  dnnl::memory Y() const { return {y_, engine_, c_.y.data()}; }
  dnnl::memory Bias() const { return {bias_, engine_, c_.bias.data()}; }
  // The filters in the layout that a primitive wants.
  dnnl::memory Weight(const dnnl::memory::desc& wanted) {
    dnnl::memory plain({weight_.dims(), kF32, Tag::oihw}, engine_, c_.weight.data());
    dnnl::memory packed(wanted, engine_);
    dnnl::reorder(plain, packed).execute(stream_, plain, packed);
    return packed;
  }
  void Execute(const dnnl::primitive& primitive,
               const std::unordered_map<int, dnnl::memory>& operands) {
    primitive.execute(stream_, operands);
  }

 private:
  using Tag = dnnl::memory::format_tag;
  static constexpr auto kF32 = dnnl::memory::data_type::f32;
  static constexpr auto kDirect = dnnl::algorithm::convolution_direct;
  inline static const dnnl::memory::dims kOne{1, 1};

  dnnl::convolution_forward::primitive_desc Hint() const {
    return {{dnnl::prop_kind::forward_training, kDirect, x_, weight_, y_, kOne, kOne, kOne},
            engine_};
  }

  Case& c_;
  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream_{engine_};
  dnnl::memory::desc x_, y_, weight_, bias_;
};

void OneDnnForward(benchmark::State& state) {
  Case c(state);
  Direct direct(c);
  const auto desc = direct.ForwardDesc();
  const dnnl::convolution_forward primitive(desc);
  const std::unordered_map<int, dnnl::memory> operands = {
      {DNNL_ARG_SRC, direct.X()},
      {DNNL_ARG_WEIGHTS, direct.Weight(desc.weights_desc())},
      {DNNL_ARG_BIAS, direct.Bias()},
      {DNNL_ARG_DST, direct.Y()}};
  Run(state, c, [&] { direct.Execute(primitive, operands); });
}

void OneDnnDataGradient(benchmark::State& state) {
  Case c(state);
  Direct direct(c);
  const auto desc = direct.DataDesc();
  const dnnl::convolution_backward_data primitive(desc);
  const std::unordered_map<int, dnnl::memory> operands = {
      {DNNL_ARG_DIFF_DST, direct.Y()},
      {DNNL_ARG_WEIGHTS, direct.Weight(desc.weights_desc())},
      {DNNL_ARG_DIFF_SRC, direct.X()}};
  Run(state, c, [&] { direct.Execute(primitive, operands); });
}

// Without the conversion back to the plain layout, which Winograd's includes.
void OneDnnWeightGradient(benchmark::State& state) {
  Case c(state);
  Direct direct(c);
  const auto desc = direct.WeightDesc();
  const dnnl::convolution_backward_weights primitive(desc);
  const std::unordered_map<int, dnnl::memory> operands = {
      {DNNL_ARG_SRC, direct.X()},
      {DNNL_ARG_DIFF_DST, direct.Y()},
      {DNNL_ARG_DIFF_WEIGHTS, direct.Weight(desc.diff_weights_desc())}};
  Run(state, c, [&] { direct.Execute(primitive, operands); });
}

void Shapes(benchmark::internal::Benchmark* bench) {
  const std::vector<std::vector<int64_t>> shapes = {
      {64, 64, 56},   {128, 128, 28},  {256, 256, 14}, {512, 512, 7},   // ResNet-50
      {64, 64, 224},  {128, 128, 112}, {256, 256, 56}, {512, 512, 28},  // VGG-16
      {512, 512, 14},                                                   // its conv5
      {64, 192, 56},  {96, 128, 28},   {128, 192, 28},                  // GoogLeNet, up to 3b
      {96, 208, 14},  {112, 224, 14},  {160, 320, 14}, {192, 384, 7},   // 4a, 4b, 4e, 5b
      {16, 64, 55},   {32, 128, 27},   {48, 192, 13},  {64, 256, 13}};  // SqueezeNet 1.1
  for (const int64_t threads : {1, 2}) {
    for (const int64_t batch : {1, 8}) {
      for (const auto& s : shapes) bench->Args({batch, s[0], s[1], s[2], threads});
    }
  }
  bench->ArgNames({"batch", "channels", "outputs", "size", "threads"});
  bench->Unit(benchmark::kMillisecond)->UseRealTime();
}

BENCHMARK(WinogradForward)->Apply(Shapes);
BENCHMARK(OneDnnForward)->Apply(Shapes);
BENCHMARK(WinogradDataGradient)->Apply(Shapes);
BENCHMARK(OneDnnDataGradient)->Apply(Shapes);
BENCHMARK(WinogradWeightGradient)->Apply(Shapes);
BENCHMARK(OneDnnWeightGradient)->Apply(Shapes);
BENCHMARK(WinogradFilters)->Apply(Shapes);

}  // namespace
