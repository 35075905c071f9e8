// Measures the overhead of running a layer: chains of layers on four numbers. Arguments: layers,
// threads. The counter is seconds per layer; training has a forward and a backward pass.
#include <benchmark/benchmark.h>

#include "core/strings.h"
#include "format/prototxt.h"
#include "plan/plan.h"
#include "runtime/session.h"

namespace {

using namespace crema;  // NOLINT: a program, not a library

std::string Chain(int64_t layers, bool train) {
  std::string text =
      "layer { name: 'data' type: 'Input' top: 'y0' input_param { shape { dim: 4 dim: 1 } } }\n";
  for (int64_t i = 0; i < layers; ++i) {
    text +=
        StrCat("layer { name: 'l", i, "' type: 'TanH' bottom: 'y", i, "' top: 'y", i + 1, "' }\n");
  }
  if (!train) return text;
  return StrCat("force_backward: true\n", text, "layer { name: 'loss' type: 'Reduction' bottom: 'y",
                layers, "' top: 'loss' loss_weight: 1 }\n");
}

void Run(benchmark::State& state, bool train) {
  const Registry registry = BuiltinRegistry();
  const NetFile file = ParseNet(Chain(state.range(0), train), "chain.prototxt");
  const int threads = static_cast<int>(state.range(1));
  std::vector<Problem> warnings;
  const auto plan = MakePlan(file.net, file.source, {}, registry,
                             {.threads = threads, .backward = train}, &warnings);
  Session session(plan, Weights::Make(*plan, 1), ExecContext(threads));
  for (auto _ : state) {
    session.Forward();
    if (train) session.Backward();
  }
  state.counters["a_layer"] = benchmark::Counter(
      static_cast<double>(state.range(0)),
      benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

void Forward(benchmark::State& state) { Run(state, false); }
void ForwardBackward(benchmark::State& state) { Run(state, true); }

BENCHMARK(Forward)->Args({400, 1})->Args({400, 2});
BENCHMARK(ForwardBackward)->Args({400, 1})->Args({400, 2});

}  // namespace
