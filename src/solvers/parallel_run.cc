#include "solvers/parallel_run.h"

#include <atomic>
#include <exception>
#include <string_view>
#include <thread>
#include <utility>

#include "core/error.h"
#include "core/strings.h"

namespace crema {

// The log of a rank above 0: suppresses messages during construction, as rank 0 logs the same;
// later passes on those about its own data or device.
class ParallelRun::RankLog final : public LogSink {
 public:
  RankLog(LogSink* to, std::string name) : to_(to), name_(std::move(name)) {}

  void Open() { open_ = true; }
  void Write(Severity severity, std::string_view message) override {
    if (!open_ || severity == Severity::kInfo) return;
    to_->Write(severity, StrCat(name_, ": ", message));
  }

 private:
  LogSink* const to_;
  const std::string name_;
  std::atomic<bool> open_ = false;
};

bool SumsOverRanks(const LayerParameter& layer) {
  return layer.batch_norm_param().sync() || layer.bn_param().sync();
}

void RefuseLayersOfRanks(const Plan& plan) {
  for (const PlannedLayer& layer : plan.layers) {
    if (SumsOverRanks(layer.layer->param()) && plan.options.device.type == DeviceType::kCuda) {
      Fail(ErrorCode::kUnsupported,
           "sync: true is for several processes on CPUs; leave it out, and each GPU normalises by "
           "its own batch",
           {.layer = layer.name()});
    }
    if (layer.type->name != "HDF5Output") continue;
    Fail(
        ErrorCode::kUnsupported,
        "all ranks of the run would write to the same file; train on one GPU or in one process, or "
        "leave the layer out in the TRAIN phase",
        {.layer = layer.name()});
  }
}

RunConfig ConfigOfFollower(RunConfig config, bool shares_tests) {
  if (!shares_tests || config.solver.solver.ema_decay() > 0) {
    config.tests.clear();
    config.test_iterations.clear();
  }
  config.solver.solver.clear_ema_decay();
  return config;
}

ParallelRun::ParallelRun(std::vector<ComputeDevice> devices, std::unique_ptr<Collective> collective)
    : devices_(std::move(devices)),
      ranks_(static_cast<int>(devices_.size()), std::move(collective)) {}

ParallelRun::~ParallelRun() = default;

std::string ParallelRun::NameOf(int rank) const {
  const Device device = devices_[static_cast<size_t>(rank)].device;
  return device.type == DeviceType::kCuda ? StrCat("GPU ", device.ordinal) : ToString(device);
}

SolverOptions ParallelRun::OptionsOfFirst(SolverOptions options) {
  options.device = devices_.front();
  options.ranks = &ranks_;
  options.rank = 0;
  return options;
}

void ParallelRun::MakeOthers(const Solver& first, const RunConfig& config, const Registry& registry,
                             const SolverOptions& options, const std::string& state_path) {
  RefuseLayersOfRanks(first.plan());
  if (options.log != nullptr) {
    std::vector<std::string> names;
    for (int rank = 0; rank < ranks_.size(); ++rank) names.push_back(NameOf(rank));
    options.log->Write(Severity::kInfo,
                       StrCat("training on ", Join(names, ", "), ": an iteration has ",
                              ranks_.size(), " times the samples that the net's batch size says"));
  }
  for (int rank = 1; rank < ranks_.size(); ++rank) {
    LogSink* const log = options.log != nullptr ? options.log : &NullSink();
    logs_.push_back(std::make_unique<RankLog>(log, NameOf(rank)));
    SolverOptions own = options;
    own.log = logs_.back().get();
    own.observer = nullptr;
    own.poll = nullptr;
    own.seed = first.seed();
    own.device = devices_[static_cast<size_t>(rank)];
    own.ranks = &ranks_;
    own.rank = rank;
    try {
      others_.push_back(
          std::make_unique<Solver>(ConfigOfFollower(config, false), registry, std::move(own)));
      if (!state_path.empty()) others_.back()->Restore(state_path);
    } catch (...) {
      Rethrow({rank, std::current_exception()});
    }
  }
}

void ParallelRun::Run(Solver* first, const std::function<void(Solver&)>& body) {
  CREMA_CHECK(std::ssize(others_) + 1 == ranks_.size());
  for (const auto& log : logs_) log->Open();
  const auto run = [&](int rank) {
    try {
      body(rank == 0 ? *first : other(rank));
    } catch (...) {
      ranks_.Fail(rank, std::current_exception());
    }
  };
  std::vector<std::thread> threads;
  try {
    for (int rank = 1; rank < ranks_.size(); ++rank) threads.emplace_back(run, rank);
    run(0);
  } catch (...) {  // a thread could not be started
    ranks_.Fail(0, std::current_exception());
  }
  for (std::thread& thread : threads) thread.join();
  if (const RankGroup::Failure failure = ranks_.failure(); failure.error) Rethrow(failure);
}

void ParallelRun::Rethrow(const RankGroup::Failure& failure) const {
  try {
    std::rethrow_exception(failure.error);
  } catch (const Error& error) {
    const bool of_device =
        error.code() == ErrorCode::kDeviceFailure || error.code() == ErrorCode::kOutOfMemory;
    if (!of_device) throw;
    std::vector<Problem> problems = error.problems();
    problems.front().message = StrCat(NameOf(failure.rank), ": ", problems.front().message);
    throw Error(std::move(problems));
  }
}

}  // namespace crema
