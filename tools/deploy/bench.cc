#include <cstdio>
#include <memory>

#include "common/json.h"
#include "common/plugin_flag.h"
#include "common/tool.h"
#include "core/strings.h"
#include "deploy/actions.h"
#include "deploy/arrays.h"
#include "deploy/options.h"
#include "inference/model_bench.h"

DEFINE_string(batches, "1", "[Run NUMBERS @bench] batch sizes: 1,8,32");
DEFINE_string(instances, "1", "[Run NUMBERS @bench] numbers of runners that work in parallel: 1,2");
DEFINE_double(seconds, 1, "[Run @bench] seconds that each case runs at least");
DEFINE_int64(warmup, 2, "[Run @bench] runs of each runner that are not counted");

namespace crema::tools {
namespace {

struct Case {
  int threads = 1;
  int batch = 1;
  int instances = 1;
};

constexpr double kMilli = 1e3;

void Print(const Case& c, const BenchResult& r, int64_t samples) {
  const double rate = static_cast<double>(r.runs * samples) / r.seconds;
  if (FLAGS_json) {
    std::printf(
        "{\"threads\": %d, \"batch\": %d, \"instances\": %d, \"runs\": %lld, \"p50_ms\": %s, "
        "\"p90_ms\": %s, \"p99_ms\": %s, \"samples_per_second\": %s}\n",
        c.threads, c.batch, c.instances, static_cast<long long>(r.runs),
        JsonNumber(kMilli * r.p50).c_str(), JsonNumber(kMilli * r.p90).c_str(),
        JsonNumber(kMilli * r.p99).c_str(), JsonNumber(rate).c_str());
  } else {
    std::printf("%7d %6d %9d %7lld %10.3f %10.3f %10.3f %12.1f\n", c.threads, c.batch, c.instances,
                static_cast<long long>(r.runs), kMilli * r.p50, kMilli * r.p90, kMilli * r.p99,
                rate);
  }
  std::fflush(stdout);
}

// Given arrays determine the number of samples.
void Bench(const std::shared_ptr<const Model>& model, Case c) {
  const std::vector<NamedOutput> inputs =
      HasInputFiles() ? InputsOfFlags(*model) : AcceptedInputs(model, c.batch, 1);
  int64_t samples = 1;
  if (model->Batches()) samples = inputs[0].value.shape()[0];
  c.batch = static_cast<int>(samples);
  const BenchResult result =
      BenchModel(model, ViewsOf(inputs),
                 {.instances = c.instances, .warmup = FLAGS_warmup, .seconds = FLAGS_seconds});
  Print(c, result, samples);
}

void CheckFlags() {
  if (!(FLAGS_seconds >= 0 && FLAGS_seconds <= 3600)) {
    Fail(ErrorCode::kInvalidArgument, StrCat("--seconds is ", FLAGS_seconds, ", expected 0..3600"));
  }
  if (FLAGS_warmup < 0) Fail(ErrorCode::kInvalidArgument, StrCat("--warmup is ", FLAGS_warmup));
  if (HasInputFiles() && IsGiven("batches")) {
    Fail(ErrorCode::kInvalidArgument, "--batches makes random inputs; --input gives its own");
  }
}

}  // namespace

int Bench(const std::vector<std::string>& arguments) {
  RefusePositional(arguments);
  const ModelNames names = ModelOfFlags();
  CheckFlags();
  const std::vector<int> threads = NumbersOf("threads", FLAGS_threads, 0);
  const std::vector<int> batches = NumbersOf("batches", FLAGS_batches, 1);
  const std::vector<int> instances = NumbersOf("instances", FLAGS_instances, 1, 1024);
  const Registry registry = LayersOfFlag();
  if (!FLAGS_json) {
    std::printf("threads  batch instances    runs   p50 (ms)   p90 (ms)   p99 (ms)   samples/s\n");
  }
  for (const int t : threads) {
    const int count = CheckedThreads(t);
    const auto model = OpenModel(names, registry, ModelOptionsOfFlags(count));
    if (!model->Batches() && batches != std::vector<int>{1}) {
      Fail(ErrorCode::kInvalidArgument, "this net cannot batch samples: use --batches=1");
    }
    for (const int batch : batches) {
      for (const int i : instances) Bench(model, {count, batch, i});
    }
  }
  return 0;
}

}  // namespace crema::tools
