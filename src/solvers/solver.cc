#include "solvers/solver.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <utility>

#include "core/rng.h"
#include "core/strings.h"
#include "format/stock_caffe.h"
#include "runtime/weights_files.h"
#include "solvers/snapshot.h"

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

}  // namespace

Solver::Solver(RunConfig config, const Registry& registry, SolverOptions options)
    : config_(std::move(config)),
      options_(std::move(options)),
      param_(config_.solver.solver),
      rule_(*FindUpdateRule(param_.type())),
      seed_(options_.seed ? *options_.seed : SeedOf(param_)),
      rate_(param_),
      losses_(param_.average_loss()) {
  if (options_.log == nullptr) options_.log = &NullSink();
  if (options_.observer == nullptr) options_.observer = &NullObserver();
  if (options_.threads <= 0) options_.threads = AvailableProcessors();
  const bool writes = param_.snapshot() > 0 || param_.snapshot_after_train();
  if (writes && !param_.snapshot_prefix().empty()) ProbeSnapshotFolder(param_.snapshot_prefix());
  PlanNets(registry);
  const std::string not_stock = DescribeLayersNotStock(train_plan_->written);
  if (writes && !not_stock.empty()) {
    options_.log->Write(Severity::kWarning, "snapshots: " + not_stock);
  }
  AllocateHistory();
}

void Solver::Warn(const std::vector<Problem>& warnings) {
  for (const Problem& warning : warnings) {
    options_.log->Write(Severity::kWarning, ToString(warning));
  }
}

void Solver::PlanNets(const Registry& registry) {
  std::vector<Problem> warnings = config_.solver.warnings;
  warnings.insert(warnings.end(), config_.train.file.warnings.begin(),
                  config_.train.file.warnings.end());
  PlanOptions plan_options{.threads = options_.threads};
  train_plan_ = MakePlan(config_.train.file.net, config_.train.file.source, config_.train.state,
                         registry, plan_options, &warnings);
  if (std::ranges::none_of(train_plan_->layers, &PlannedLayer::backward)) {
    warnings.push_back({ErrorCode::kInvalidArgument,
                        {},
                        "this net learns nothing: no learned blob with an lr_mult has a loss above "
                        "it"});
  }
  Warn(warnings);
  weights_ = Weights::Make(*train_plan_, seed_);
  train_ = std::make_unique<Session>(train_plan_, weights_, ExecContext(options_.threads, seed_));
  plan_options.backward = false;
  for (size_t i = 0; i < config_.tests.size(); ++i) {
    const NetOfRun& test = config_.tests[i];
    std::vector<Problem> test_warnings;  // the same file was warned about above
    const auto plan = MakePlan(test.file.net, test.file.source, test.state, registry, plan_options,
                               &test_warnings);
    if (!param_.has_net() && !param_.has_net_param()) Warn(test_warnings);
    const uint64_t seed = MixBits(seed_, i + 1);
    tests_.push_back(std::make_unique<Session>(plan, Weights::ShareWith(*plan, *weights_, seed),
                                               ExecContext(options_.threads, seed)));
    WarnWhereNothingIsLearned(*tests_.back(), i);
  }
  if (rate_.wants_metric()) {
    std::vector<const Plan*> plans;
    for (const auto& test : tests_) plans.push_back(&test->plan());
    rate_.BindTests(plans);
  }
}

void Solver::WarnWhereNothingIsLearned(const Session& test, size_t net) const {
  const auto has_layer = [&](const std::string& name) {
    return std::ranges::any_of(train_plan_->layers, [&](const PlannedLayer& layer) {
      return layer.name() == name && !layer.learned.empty();
    });
  };
  for (const PlannedLayer& layer : test.plan().layers) {
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
}

void Solver::LoadWeights(const std::vector<std::string>& paths, OnMismatch on_mismatch) {
  LoadFiles({.paths = paths, .on_mismatch = on_mismatch, .missing = MissingLayers::kKeep},
            *train_plan_, weights_.get(), options_.log);
}

void Solver::Solve() {
  options_.observer->OnStart(train_plan_->name, iteration_);
  const bool finished = Step(param_.max_iter() - iteration_);
  if (param_.snapshot_after_train() && !param_.snapshot_prefix().empty() &&
      snapshot_iteration_ != iteration_) {
    Snapshot();
  }
  if (!finished) {
    options_.observer->OnEnd(true);
    return;
  }
  if (param_.display() > 0 && iteration_ % param_.display() == 0) {
    const double loss = train_->Forward();
    RefuseBrokenLoss(loss);
    losses_.Add(loss);
    options_.observer->OnFinalLoss(iteration_, losses_.Mean());
  }
  if (param_.test_interval() > 0 && iteration_ % param_.test_interval() == 0) TestAll();
  options_.observer->OnEnd(false);
}

bool Solver::IsTestDue() const {
  return param_.test_interval() > 0 && iteration_ % param_.test_interval() == 0 &&
         (iteration_ > 0 || param_.test_initialization());
}

bool Solver::Step(int64_t count) {
  const int64_t end = iteration_ + count;
  while (iteration_ < end) {
    if (IsTestDue() && !TestAll()) return false;
    const double loss = ForwardBackward();
    losses_.Add(loss);
    rate_.ObserveLoss(iteration_, losses_.Mean());
    const double rate = rate_.At(iteration_);
    Report(loss, rate);
    ApplyUpdate(rate);
    ++iteration_;
    const Request request = Poll();
    const bool due = param_.snapshot() > 0 && iteration_ % param_.snapshot() == 0;
    if (due || request == Request::kSnapshot) Snapshot();
    if (request == Request::kStop) return false;
  }
  return true;
}

double Solver::ForwardBackward() {
  train_->ZeroLearnedGradients();
  double loss = 0;
  for (int pass = 0; pass < param_.iter_size(); ++pass) {
    const double pass_loss = train_->Forward();
    RefuseBrokenLoss(pass_loss);
    loss += pass_loss;
    train_->Backward();
  }
  return loss / param_.iter_size();
}

void Solver::RefuseBrokenLoss(double loss) const {
  if (std::isfinite(loss)) return;
  Fail(ErrorCode::kDiverged,
       StrCat("training diverged: the loss is ", loss, " in iteration ", iteration_, " (base_lr ",
              param_.base_lr(),
              "); lower base_lr or set clip_gradients. Snapshots written before are whole"));
}

namespace {

double SumOfSquares(const ConstTensorView& view) {
  return DispatchFloat(view.dtype(), [&]<typename T>(T) {
    double sum = 0;
    for (T x : view.span<T>()) sum += static_cast<double>(x) * x;
    return sum;
  });
}

}  // namespace

// Clipping works on the sum over iter_size, before division and before weight decay, as in Caffe.
double Solver::GradientScale() {
  double scale = 1.0 / param_.iter_size();
  if (param_.clip_gradients() < 0) return scale;
  double sum = 0;
  for (size_t s = 0; s < history_.size(); ++s) {
    const TensorView gradient = train_->LearnedGradient(s);
    if (!history_[s].empty() && !gradient.empty()) sum += SumOfSquares(gradient);
  }
  const double norm = std::sqrt(sum);
  if (norm > param_.clip_gradients()) scale *= param_.clip_gradients() / norm;
  return scale;
}

void Solver::ApplyUpdate(double rate) {
  const double scale = GradientScale();
  for (size_t s = 0; s < history_.size(); ++s) {
    const LearnedSlot& slot = train_plan_->learned[s];
    if (slot.owner != static_cast<int>(s)) continue;
    const TensorView gradient = train_->LearnedGradient(s);
    const double decay = static_cast<double>(param_.weight_decay()) * slot.decay_mult;
    const bool still = rate * slot.lr_mult * decay == 0 && !restored_;
    if (gradient.empty() && still) continue;  // no gradient, no decay, and its history is zero
    rule_.apply({.context = train_->context(),
                 .param = param_,
                 .iteration = iteration_,
                 .weights = weights_->blob(s),
                 .gradient = gradient,
                 .history = history_[s],
                 .rate = rate * slot.lr_mult,
                 .gradient_scale = scale,
                 .decay = decay,
                 .regularization = param_.regularization_type() == "L1" ? Regularization::kL1
                                                                        : Regularization::kL2});
  }
}

std::vector<OutputValue> Solver::OutputsOf(const Session& session) const {
  std::vector<OutputValue> values;
  for (int v : session.plan().outputs) {
    const PlannedValue& value = session.plan().values[static_cast<size_t>(v)];
    const ConstTensorView data = session.DataOf(v);
    for (float element : data.span<float>()) {
      values.push_back({value.name, element, value.loss_weight});
    }
  }
  return values;
}

void Solver::Report(double loss, double rate) {
  IterationReport report{.iteration = iteration_,
                         .max_iterations = param_.max_iter(),
                         .loss = loss,
                         .smoothed_loss = losses_.Mean(),
                         .rate = rate,
                         .samples = 0,
                         .displayed = param_.display() > 0 && iteration_ % param_.display() == 0,
                         .outputs = {}};
  const PlannedValue& first = train_plan_->values.front();
  if (first.spec.shape.axes() > 0) report.samples = first.spec.shape[0] * param_.iter_size();
  if (report.displayed) report.outputs = OutputsOf(*train_);
  options_.observer->OnIteration(report);
}

bool Solver::TestAll() {
  std::vector<TestReport> reports;
  for (size_t net = 0; net < tests_.size(); ++net) {
    options_.observer->OnTestStart(iteration_, net);
    try {
      reports.push_back(Test(net));
      options_.observer->OnTest(reports.back());
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kCancelled) throw;
      return false;
    }
  }
  rate_.ObserveTests(iteration_, reports);
  return true;
}

TestReport Solver::Test(size_t net) {
  TestReport report{.iteration = iteration_, .net = net, .outputs = {}};
  report.has_loss = param_.test_compute_loss();
  Session& session = *tests_.at(net);
  const int batches = config_.test_iterations[net];
  for (int batch = 0; batch < batches; ++batch) {
    report.loss += session.Forward() / batches;
    std::vector<OutputValue> outputs = OutputsOf(session);
    if (batch == 0) {
      report.outputs = std::move(outputs);
    } else {
      for (size_t k = 0; k < outputs.size(); ++k) report.outputs[k].value += outputs[k].value;
    }
    const Request request = Poll();
    if (request == Request::kSnapshot) Snapshot();
    if (request == Request::kStop) Fail(ErrorCode::kCancelled, "Test interrupted.");
  }
  for (OutputValue& output : report.outputs) output.value /= batches;
  return report;
}

}  // namespace crema
