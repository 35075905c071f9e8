#include "solvers/solver.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <random>
#include <utility>

#include "core/device_queue.h"
#include "core/rng.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "format/solver_state.h"
#include "format/stock_caffe.h"
#include "runtime/weights.h"
#include "solvers/run_memory.h"
#include "solvers/run_mistakes.h"
#include "solvers/run_rules.h"
#include "solvers/snapshot.h"

namespace crema {
namespace {

uint64_t SeedOf(const SolverParameter& param) {
  if (param.random_seed() >= 0) return static_cast<uint64_t>(param.random_seed());
  // Below 2^53, so that random_seed and readers of JSON hold each exactly.
  std::random_device device;
  return ((uint64_t{device()} << 32) | device()) >> 11;
}

TrainingObserver& NullObserver() {
  static TrainingObserver observer;  // has no state
  return observer;
}

SolverOptions Completed(SolverOptions options) {
  if (options.log == nullptr) options.log = &NullSink();
  if (options.observer == nullptr) options.observer = &NullObserver();
  if (options.threads <= 0) options.threads = AvailableProcessors();
  return options;
}

void Warn(const std::vector<Problem>& warnings, LogSink* log) {
  for (const Problem& warning : warnings) log->Write(Severity::kWarning, ToString(warning));
}

// Throws if the bytes of the run do not follow from seed, text and data alone.
void RefuseUndetermined(const RunConfig& config, const SolverOptions& options) {
  std::vector<Problem> problems;
  if (!options.seed && config.solver.solver.random_seed() < 0) {
    problems.push_back({ErrorCode::kInvalidArgument, config.solver.source.Locate("random_seed"),
                        "deterministic: random_seed is not set, so that each run draws another; "
                        "set random_seed to 0 or more"});
  }
  for (const LayerParameter& layer : config.train.file.net.layer()) {
    if (layer.type() != "VideoData") continue;
    if (layer.video_data_param().video_type() != VideoDataParameter::WEBCAM) continue;
    problems.push_back({ErrorCode::kUnsupported,
                        {.layer = layer.name()},
                        "deterministic: the frames of a camera are never the same again; give "
                        "video_type: VIDEO and a file"});
  }
  if (!problems.empty()) throw Error(std::move(problems));
}

void Copy(const Session& session, const TensorView& to, const ConstTensorView& from) {
  DeviceQueue* const queue = session.context().queue();
  if (!session.OnGpu()) {
    std::memcpy(to.raw(), from.raw(), from.bytes());
  } else {
    LosingQueue(queue, [&] { queue->Copy(to.raw(), from.raw(), from.bytes()); });
  }
}

}  // namespace

PlanOptions PlanOptionsOf(const SolverOptions& options) {
  PlanOptions plan = options.plan;
  const int threads = options.threads > 0 ? options.threads : AvailableProcessors();
  plan.threads = options.deterministic ? kDeterministicPieces : threads;
  plan.deterministic = options.deterministic;
  plan.device = options.device.device;
  plan.rank = options.rank;
  plan.world = options.ranks == nullptr ? 1 : options.ranks->size();
  return plan;
}

Solver::Solver(RunConfig config, const Registry& registry, SolverOptions options)
    : config_(std::move(config)),
      options_(Completed(std::move(options))),
      param_(config_.solver.solver),
      registry_(registry),
      seed_(options_.seed ? *options_.seed : SeedOf(param_)),
      ranks_(options_.ranks, options_.rank),
      snapshots_(param_, {.writes = ranks_.is_first(),
                          .may_be_asked = static_cast<bool>(options_.poll),
                          .log = options_.log,
                          .observer = options_.observer}),
      losses_(param_.average_loss()) {
  if (options_.deterministic) RefuseUndetermined(config_, options_);
  Allocate();
  snapshots_.CheckFolder();  // makes it, so not for a net that is refused
  const std::string not_stock = DescribeLayersNotStock(train_plan_->written);
  if (snapshots_.IsPlanned() && !not_stock.empty()) {
    options_.log->Write(Severity::kWarning, "snapshots: " + not_stock);
  }
  epochs_ = CountEpochs(*train_, &config_.solver);
  epochs_counted_ = epochs_.known();
  rate_.emplace(param_);
  if (ranks_.is_first()) MakeRules();
  if (!tests_.empty()) Warn(WarnAboutIdleRules(config_.solver, epochs_), options_.log);
}

void Solver::Allocate() {
  const int64_t free = options_.device.FreeBytes();
  try {
    PlanNets();
  } catch (const Error& error) {
    const bool explained = error.code() == ErrorCode::kOutOfMemory && free > 0 && train_plan_;
    if (!explained) throw;
    throw ExplainRunShortage(error, config_, registry_, *train_plan_, free);
  }
}

void Solver::PlanNets() {
  const PlanOptions plan_options = PlanOptionsOf(options_);
  PlanTrainNet(plan_options);
  if (!options_.device.is_gpu()) RequireMemory(TrainingBytes(param_, *train_plan_));
  weights_ = Weights::Make(*train_plan_, seed_);
  ExecContext context = options_.device.Context(plan_options.threads, seed_);
  context.set_rank_sums(ranks_.SumsInPass());
  train_ = std::make_unique<Session>(train_plan_, weights_, std::move(context));
  train_->set_step(ranks_.StepOf(0));
  updater_.emplace(param_, train_plan_, train_.get(), weights_.get(),
                   Updater::Options{.seed = seed_,
                                    .ranks = ranks_.count(),
                                    .device = options_.device_update,
                                    .log = options_.log});
  PlanTestNets(plan_options);
}

void Solver::PlanTrainNet(const PlanOptions& options) {
  std::vector<Problem> warnings = config_.solver.warnings;
  TrainPlan made =
      HoldFrozenLayers(config_.solver, PlanNetOfRun(config_.train, registry_, options, &warnings),
                       registry_, &config_.train);
  train_plan_ = std::move(made.plan);
  frozen_ = std::move(made.frozen);
  if (!frozen_.empty()) {
    options_.log->Write(Severity::kInfo, "frozen layers: " + Join(frozen_, " "));
  }
  std::ranges::move(WarnAboutFrozenNet(config_.solver, *train_plan_), std::back_inserter(warnings));
  Warn(warnings, options_.log);
}

void Solver::PlanTestNets(const PlanOptions& options) {
  for (size_t i = 0; i < config_.tests.size(); ++i) {
    std::vector<Problem> warnings;
    tests_.push_back(std::make_unique<TestNet>(
        config_.tests[i], registry_, RunWeightsNow().tested(),
        TestNet::Options{.index = i,
                         .batches = config_.test_iterations[i],
                         .report_loss = param_.test_compute_loss(),
                         .plan = options,
                         .device = options_.device,
                         .seed = MixBits(seed_, i + 1),
                         .warnings = &warnings,
                         .log = options_.log,
                         .precision = FindApRule(param_.ap_version()).value_or(ApRule::kIntegral),
                         .log_classes = param_.show_per_class_result()}));
    Warn(WarnAboutRandomTests(config_.tests[i]), options_.log);
    // If both nets are in one file, it was warned about before.
    if (!param_.has_net() && !param_.has_net_param()) Warn(warnings, options_.log);
    Warn(WarnAboutUntrainedLayers(*train_plan_, config_.tests[i], tests_.back()->plan(), i),
         options_.log);
  }
}

void Solver::MakeRules() {
  std::vector<const Plan*> plans;
  for (const auto& test : tests_) plans.push_back(&test->plan());
  RunRules rules = MakeRunRules(config_.solver, plans, &*rate_);
  best_ = std::move(rules.best);
  early_ = std::move(rules.early);
}

void Solver::LoadWeights(const std::vector<std::string>& paths, OnMismatch on_mismatch) {
  LoadFiles({.paths = paths, .on_mismatch = on_mismatch, .missing = MissingLayers::kKeep},
            *train_plan_, &weights(), options_.log);
  TakeWeights();
}

void Solver::TakeWeights() {
  updater_->TakeWeights();
  queued_.Clear();
}

Weights& Solver::weights() { return updater_->HostWeights(); }

Weights* Solver::averaged_weights() {
  updater_->HostWeights();
  return updater_->average();
}

RunWeights Solver::RunWeightsNow() { return {*train_plan_, *weights_, updater_->average()}; }

void Solver::SaveDecisions(SolverState* state) const {
  rate_->Save(state);
  if (best_) best_->Save(state);
  if (early_) early_->Save(state);
  for (const auto& test : tests_) test->Save(state);
}

SolverState Solver::MakeState() {
  SolverState state;
  state.set_iter(static_cast<int>(iteration_));
  state.set_solver_type(updater_->rule().name);
  state.set_seed(seed_);
  state.set_step(train_->step());
  losses_.Save(&state);
  updater_->Save(&state);
  ranks_.SavePositions(*train_, &state);
  if (before_tests_) {
    state.MergeFrom(*before_tests_);
  } else {
    SaveDecisions(&state);
  }
  return state;
}

void Solver::Snapshot() {
  if (!snapshots_.has_prefix()) {
    Fail(ErrorCode::kInvalidArgument, "a snapshot needs the field snapshot_prefix in the solver");
  }
  updater_->StartAverage();
  DrainCompletedIterations(true);
  updater_->HostWeights();
  SolverState state = MakeState();
  ranks_.ThrowIfFailed();  // after the copies: a failed rank may not have contributed
  snapshots_.Write(RunWeightsNow(), iteration_, std::move(state));
}

void Solver::Restore(const std::string& path) {
  const SolverState state = ReadSolverState(path);
  CheckState(state, path, param_, seed_, options_.log);
  updater_->Restore(state, path, frozen_);
  queued_.Clear();
  before_tests_.reset();
  iteration_ = state.iter();
  snapshots_.set_last(iteration_);
  rate_->Restore(state);
  losses_.Restore(state);
  if (best_) best_->Restore(state);
  if (early_) early_->Restore(state);
  const auto passes = static_cast<uint64_t>(iteration_ * param_.iter_size());
  train_->set_step(ranks_.StepOf(state.has_step() ? state.step() : passes));
  ranks_.RestorePositions(state, train_.get(), options_.log);
  for (const auto& test : tests_) test->Restore(state);
  if (iteration_ >= param_.max_iter()) {
    const Where where =
        config_.solver.source.Locate(param_.has_max_epoch() ? "max_epoch" : "max_iter");
    options_.log->Write(
        Severity::kWarning,
        ToString({ErrorCode::kInvalidArgument, where,
                  StrCat("the state is of iteration ", iteration_, ", and the run ends at ",
                         param_.max_iter(), ": there is nothing left to train")}));
  }
}

void IterationStart::Take(const Session& session) {
  mark_.Take(session);
  const std::vector<ParameterSlot>& parameters = session.plan().parameters;
  statistics_.resize(parameters.size());
  for (size_t s = 0; s < parameters.size(); ++s) {
    if (!parameters[s].statistic || parameters[s].owner != static_cast<int>(s)) continue;
    const TensorView now = session.Parameter(s);
    Tensor& copy = statistics_[s];
    if (copy.view().empty()) {
      copy = Tensor(now.shape(), now.dtype(), session.context().allocator());
    }
    Copy(session, copy.view(), now);
  }
}

void IterationStart::PutBack(Session* session) const {
  for (size_t s = 0; s < statistics_.size(); ++s) {
    const ConstTensorView before = statistics_[s].view();
    if (!before.empty()) Copy(*session, session->Parameter(s), before);
  }
  session->RestoreState("train", mark_.readers());
  session->set_step(mark_.step());
}

}  // namespace crema
