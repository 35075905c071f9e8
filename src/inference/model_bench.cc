#include "inference/model_bench.h"

#include <algorithm>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cmath>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>

#include "core/error.h"
#include "core/strings.h"

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
  std::atomic<bool> stop = false;  // a thread could not be started: measure nothing
  std::vector<double> times;
  Clock::time_point begin = Clock::time_point::max();  // start of the first counted run
  Clock::time_point end = Clock::time_point::min();
  std::exception_ptr failure;
};

void RunOne(const std::shared_ptr<const Model>& model, std::span<const NamedTensor> inputs,
            const BenchOptions& options, Shared* shared) {
  std::vector<double> times;
  Clock::time_point begin = Clock::time_point::max();
  bool waits = true;
  try {
    ModelRunner runner(model);
    for (int64_t i = 0; i < options.warmup; ++i) runner.Run(inputs);
    waits = false;
    shared->ready.arrive_and_wait();
    if (shared->stop) return;
    begin = Clock::now();
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
  const Clock::time_point end = Clock::now();
  const std::lock_guard lock(shared->mutex);
  shared->times.insert(shared->times.end(), times.begin(), times.end());
  shared->begin = std::min(shared->begin, begin);
  shared->end = std::max(shared->end, end);
}

// Starts all threads, or stores an Error in `shared` and releases the others.
template <typename Body>
void StartAll(int count, const Body& body, Shared* shared, std::vector<std::jthread>* threads) {
  try {
    for (int i = 0; i < count; ++i) threads->emplace_back(body);
  } catch (const std::system_error& error) {
    shared->stop = true;
    const auto missing = static_cast<size_t>(count) - threads->size();
    const Problem problem{
        ErrorCode::kOutOfMemory,
        {},
        StrCat("no thread for ", missing, " of ", count, " instances: ", error.what())};
    const std::lock_guard lock(shared->mutex);
    shared->failure = std::make_exception_ptr(Error({problem}));
    for (size_t i = 0; i < missing; ++i) shared->ready.arrive_and_drop();
  }
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
  {
    std::vector<std::jthread> threads;
    const auto run = [&] { RunOne(model, inputs, options, &shared); };
    StartAll(options.instances, run, &shared, &threads);
    shared.ready.arrive_and_wait();
  }
  if (shared.failure) std::rethrow_exception(shared.failure);
  return {.runs = static_cast<int64_t>(shared.times.size()),
          .seconds = std::chrono::duration<double>(shared.end - shared.begin).count(),
          .p50 = Percentile(shared.times, 0.5),
          .p90 = Percentile(shared.times, 0.9),
          .p99 = Percentile(shared.times, 0.99)};
}

}  // namespace crema
