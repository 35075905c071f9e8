#include "serving/model_bench.h"

#include <algorithm>
#include <barrier>
#include <chrono>
#include <cmath>
#include <exception>
#include <mutex>
#include <thread>

namespace crema {
namespace {

using Clock = std::chrono::steady_clock;

double Since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

struct Shared {
  explicit Shared(int instances) : ready(instances) {}
  std::barrier<> ready;
  std::mutex mutex;
  std::vector<double> times;
  std::exception_ptr failure;
};

void RunOne(const std::shared_ptr<const Model>& model, std::span<const NamedTensor> inputs,
            const BenchOptions& options, Shared* shared) {
  std::vector<double> times;
  bool waits = true;
  try {
    ModelRunner runner(model);
    for (int64_t i = 0; i < options.warmup; ++i) runner.Run(inputs);
    waits = false;
    shared->ready.arrive_and_wait();
    const Clock::time_point begin = Clock::now();
    while (static_cast<int64_t>(times.size()) < options.least_runs ||
           Since(begin) < options.seconds) {
      const Clock::time_point from = Clock::now();
      runner.Run(inputs);
      times.push_back(Since(from));
    }
  } catch (...) {
    if (waits) shared->ready.arrive_and_drop();
    const std::lock_guard lock(shared->mutex);
    shared->failure = std::current_exception();
  }
  const std::lock_guard lock(shared->mutex);
  shared->times.insert(shared->times.end(), times.begin(), times.end());
}

}  // namespace

double Percentile(std::vector<double> values, double part) {
  const double place = std::ceil(part * static_cast<double>(values.size())) - 1;
  const auto at = static_cast<ptrdiff_t>(std::max(0.0, place));
  std::ranges::nth_element(values, values.begin() + at);
  return values[static_cast<size_t>(at)];
}

BenchResult BenchModel(const std::shared_ptr<const Model>& model,
                       std::span<const NamedTensor> inputs, const BenchOptions& options) {
  Shared shared(options.instances + 1);
  Clock::time_point begin;
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < options.instances; ++i) {
      threads.emplace_back([&] { RunOne(model, inputs, options, &shared); });
    }
    shared.ready.arrive_and_wait();
    begin = Clock::now();
  }
  const double seconds = Since(begin);
  if (shared.failure) std::rethrow_exception(shared.failure);
  return {.runs = static_cast<int64_t>(shared.times.size()),
          .seconds = seconds,
          .p50 = Percentile(shared.times, 0.5),
          .p90 = Percentile(shared.times, 0.9),
          .p99 = Percentile(shared.times, 0.99)};
}

}  // namespace crema
