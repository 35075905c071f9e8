#include "solvers/solver.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <utility>

#include "core/rng.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "format/stock_caffe.h"
#include "runtime/forward_warnings.h"
#include "runtime/weights_files.h"
#include "solvers/run_memory.h"
#include "solvers/run_rules.h"
#include "solvers/train_plan.h"

namespace crema {
namespace {

uint64_t SeedOf(const SolverParameter& param) {
  if (param.random_seed() >= 0) return static_cast<uint64_t>(param.random_seed());
  std::random_device device;
  return (uint64_t{device()} << 32) | device();
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

}  // namespace

Solver::Solver(RunConfig config, const Registry& registry, SolverOptions options)
    : config_(std::move(config)),
      options_(Completed(std::move(options))),
      param_(config_.solver.solver),
      rule_(*FindUpdateRule(param_.type())),
      registry_(registry),
      seed_(options_.seed ? *options_.seed : SeedOf(param_)),
      ranks_(options_.ranks, options_.rank),
      snapshots_(param_, {.writes = ranks_.is_first(),
                          .may_be_asked = static_cast<bool>(options_.poll),
                          .log = options_.log,
                          .observer = options_.observer}),
      losses_(param_.average_loss()) {
  snapshots_.CheckFolder();
  if (options_.deterministic) RefuseUndetermined();
  Allocate(registry);
  const std::string not_stock = DescribeLayersNotStock(train_plan_->written);
  if (snapshots_.IsPlanned() && !not_stock.empty()) {
    options_.log->Write(Severity::kWarning, "snapshots: " + not_stock);
  }
  epochs_ = CountEpochs(*train_, &config_.solver);
  epochs_counted_ = epochs_.known();
  rate_.emplace(param_);
  if (WantsLossScale(param_, *train_plan_)) scale_.emplace(param_.loss_scale());
  BeginOnGpu();
  if (ranks_.is_first()) MakeRules();
  if (!tests_.empty()) Warn(WarnAboutIdleRules(config_.solver, epochs_));
}

void Solver::Warn(const std::vector<Problem>& warnings) {
  for (const Problem& warning : warnings) {
    options_.log->Write(Severity::kWarning, ToString(warning));
  }
}

// Everything on the CPU is a function of seed, text and data, and of how loops are cut.
void Solver::RefuseUndetermined() const {
  std::vector<Problem> problems;
  if (!options_.seed && param_.random_seed() < 0) {
    problems.push_back({ErrorCode::kInvalidArgument, config_.solver.source.Locate("random_seed"),
                        "deterministic: random_seed is not set, so that each run draws another; "
                        "set random_seed to 0 or more"});
  }
  for (const LayerParameter& layer : config_.train.file.net.layer()) {
    if (layer.type() != "VideoData") continue;
    if (layer.video_data_param().video_type() != VideoDataParameter::WEBCAM) continue;
    problems.push_back({ErrorCode::kUnsupported,
                        {.layer = layer.name()},
                        "deterministic: the frames of a camera are never the same again; give "
                        "video_type: VIDEO and a file"});
  }
  if (!problems.empty()) throw Error(std::move(problems));
}

void Solver::PlanNets(const Registry& registry) {
  const int threads = options_.deterministic ? kDeterministicPieces : options_.threads;
  PlanOptions plan_options = options_.plan;
  plan_options.threads = threads;
  plan_options.deterministic = options_.deterministic;
  plan_options.device = options_.device.device;
  plan_options.rank = options_.rank;
  plan_options.world = ranks_.count();
  PlanTrainNet(registry, plan_options);
  if (!options_.device.is_gpu()) RequireMemory(TrainingBytes(param_, *train_plan_));
  weights_ = Weights::Make(*train_plan_, seed_);
  train_ =
      std::make_unique<Session>(train_plan_, weights_, options_.device.Context(threads, seed_));
  train_->set_step(ranks_.StepOf(0));
  if (param_.ema_decay() > 0) {
    average_ = std::make_unique<WeightAverage>(train_plan_, param_.ema_decay(), seed_);
    options_.log->Write(Severity::kInfo, StrCat("ema_decay ", param_.ema_decay(),
                                                ": tests and the best model use averaged weights"));
  }
  PlanTestNets(registry, plan_options);
}

void Solver::PlanTrainNet(const Registry& registry, const PlanOptions& options) {
  std::vector<Problem> warnings = config_.solver.warnings;
  TrainPlan made =
      HoldFrozenLayers(config_.solver, PlanNetOfRun(config_.train, registry, options, &warnings),
                       registry, &config_.train);
  train_plan_ = std::move(made.plan);
  frozen_ = std::move(made.frozen);
  if (!frozen_.empty()) {
    options_.log->Write(Severity::kInfo, "frozen layers: " + Join(frozen_, " "));
  }
  Warn(warnings);
  Warn(WarnAboutTraining(*train_plan_));
}

void Solver::PlanTestNets(const Registry& registry, const PlanOptions& options) {
  for (size_t i = 0; i < config_.tests.size(); ++i) {
    std::vector<Problem> warnings;
    const Weights& tested = average_ ? average_->weights() : *weights_;
    tests_.push_back(std::make_unique<TestNet>(
        config_.tests[i], registry, tested,
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
    // The one file of both nets was warned about before.
    if (!param_.has_net() && !param_.has_net_param()) Warn(warnings);
    WarnWhereNothingIsLearned(tests_.back()->plan(), i);
  }
}

void Solver::MakeRules() {
  std::vector<const Plan*> plans;
  for (const auto& test : tests_) plans.push_back(&test->plan());
  RunRules rules = MakeRunRules(config_.solver, plans, &*rate_);
  best_ = std::move(rules.best);
  early_ = std::move(rules.early);
}

void Solver::WarnWhereNothingIsLearned(const Plan& test, size_t net) const {
  const auto has_layer = [&](const std::string& name) {
    return std::ranges::any_of(train_plan_->layers, [&](const PlannedLayer& layer) {
      return layer.name() == name && !layer.learned.empty();
    });
  };
  for (const PlannedLayer& layer : test.layers) {
    if (layer.learned.empty() || has_layer(layer.name())) continue;
    options_.log->Write(Severity::kWarning,
                        StrCat("test net #", net, ": layer \"", layer.name(),
                               "\" is not in the training net; it stays at its fillers"));
  }
}

void Solver::AllocateHistory() {
  history_.resize(train_plan_->learned.size());
  for (int h = 0; h < rule_.histories; ++h) {
    for (size_t s = 0; s < train_plan_->learned.size(); ++s) {
      const LearnedSlot& slot = train_plan_->learned[s];
      if (slot.owner != static_cast<int>(s)) continue;
      history_memory_.emplace_back(slot.shape, train_plan_->options.dtype);
      history_[s].push_back(history_memory_.back().view());
    }
  }
  if (!options_.device.is_gpu()) return;
  if (!options_.device_update) options_.device_update = BuiltInDeviceUpdate();
  device_ =
      std::make_unique<DeviceState>(train_.get(), average_.get(), history_, options_.device_update);
}

void Solver::LoadWeights(const std::vector<std::string>& paths, OnMismatch on_mismatch) {
  LoadFiles({.paths = paths, .on_mismatch = on_mismatch, .missing = MissingLayers::kKeep},
            *train_plan_, &weights(), options_.log);
  ReturnHistory();  // it stays, and is taken along
  if (device_) device_->TakeAll();
  BeginOnGpu();
  average_started_ = false;
}

std::optional<double> Solver::ForwardBackward(bool stop_heard) {
  double loss = 0;
  for (int pass = 0; pass < param_.iter_size(); ++pass) {
    if (stop_heard && GivesUp(pass)) return std::nullopt;
    if (pass == 0) train_->ZeroLearnedGradients();
    loss += ForwardOnce();
    if (scale_) train_->set_loss_scale(scale_->scale());
    train_->Backward();
  }
  return loss / param_.iter_size();
}

double Solver::ForwardOnce() {
  mark_.Take(*train_);
  if (device_) device_->NoteStatistics();
  const double loss = ForwardAndWarn(train_.get(), options_.log);
  if (std::isfinite(loss)) return loss;
  throw DiagnoseDivergence(config_.train, registry_, *train_, weights(), mark_, loss,
                           RunSoFar(iteration_));
}

DivergedRun Solver::RunSoFar(int64_t iteration) const {
  return {.iteration = iteration,
          .rate = LearningRate(*rate_).At(iteration),
          .gradient_scale = gradient_scale_,
          .last_snapshot = snapshots_.LastModel()};
}

}  // namespace crema
