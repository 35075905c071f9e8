// One iteration. A GPU has a queue of them: the host waits only before a result is read, at a
// display, before tests and snapshots, and at the end. The GPU itself judges the loss scale and
// checks that all is finite; the host polls its outcomes later.
#include <algorithm>
#include <cmath>
#include <string>

#include "core/strings.h"
#include "runtime/session.h"
#include "solvers/solver.h"

namespace crema {

bool Solver::Train() {
  if (updater_->device() != nullptr) return IterateOnGpu({});
  options_.observer->OnIterationStart();
  const std::optional<double> own_loss = ForwardBackward(true);
  if (!own_loss) return false;
  const double loss = SumGradients(*own_loss, true);
  options_.observer->OnGradients();
  losses_.Add(loss);
  const bool drops = rate_->ObserveLoss(iteration_, losses_.Mean());
  const double rate = rate_->At(iteration_);
  if (drops) ReportDrop(rate);
  Report(loss, rate);
  if (ApplyUpdate(rate)) updater_->MoveAverage();
  ++iteration_;
  before_tests_.reset();
  return true;
}

std::optional<double> Solver::ForwardBackward(bool may_stop) {
  using Clock = std::chrono::steady_clock;
  double loss = 0;
  pass_seconds_ = 0;
  for (int pass = 0; pass < param_.iter_size(); ++pass) {
    if (may_stop && GivesUp(pass)) return std::nullopt;
    const Clock::time_point start = Clock::now();
    const double before = ranks_.SecondsInPass();
    if (pass == 0) train_->ZeroParameterGradients();
    loss += ForwardOnce();
    updater_->ScaleLoss();
    if (may_stop && pass + 1 == param_.iter_size()) ranks_.SumDuringBackward(train_.get());
    train_->Backward();
    const std::chrono::duration<double> took = Clock::now() - start;
    pass_seconds_ += took.count() - (ranks_.SecondsInPass() - before);
  }
  return loss / param_.iter_size();
}

double Solver::SumGradients(double loss, bool may_stop) {
  int asked = static_cast<int>(may_stop && ranks_.several() ? Poll() : Request::kNone);
  const double mean = ranks_.SumGradients(loss, train_.get(), pass_seconds_, &asked);
  asked_ = static_cast<Request>(asked);
  return mean;
}

double Solver::ForwardOnce() {
  mark_.Take(*train_);
  if (DeviceState* const device = updater_->device()) device->NoteStatistics();
  const double loss = ForwardAndWarn(train_.get(), options_.log);
  if (!std::isfinite(loss)) throw Diverged(mark_, loss, iteration_);
  return loss;
}

bool Solver::ApplyUpdate(double rate) {
  switch (updater_->Update(rate, iteration_)) {
    case Updater::Outcome::kUpdated:
      return true;
    case Updater::Outcome::kSkipped:
      return false;
    case Updater::Outcome::kBroken:
      break;
  }
  throw DiagnoseUpdate(*train_, updater_->broken_slot(), RunSoFar(iteration_));
}

void Solver::Update() {
  if (updater_->device() != nullptr) {
    Fail(ErrorCode::kUnsupported, "an update by itself is possible on the CPU only");
  }
  ApplyUpdate(rate_->At(iteration_));
}

// All ranks get the same request, so all give up before the same pass.
bool Solver::GivesUp(int pass) {
  if (param_.iter_size() == 1) return false;
  if (pass == 0) {
    start_.Take(*train_);
    return false;
  }
  const Request request = PollAll();
  if (request == Request::kSnapshot) snapshot_asked_ = true;
  if (request != Request::kStop) return false;
  DrainCompletedIterations(true);
  start_.PutBack(train_.get());
  updater_->BeginDevice();
  return true;
}

// Returns true if the rate follows from the loss, or if the program feeds the batch, which could
// not be read again to find the cause of a bad loss.
bool Solver::KnowsEachLoss() const {
  if (rate_->FollowsLoss()) return true;
  if (options_.same_batch) return false;
  return std::ranges::any_of(train_plan_->layers, [](const PlannedLayer& layer) {
    return layer.type->traits.fed_by_program;
  });
}

bool Solver::IterateOnGpu(std::optional<double> rate) {
  if (queued_.full()) DrainOneIteration(true);  // the GPU has the others to work on
  QueuedIteration& queued = queued_.Next();
  queued.reported = !rate.has_value();
  if (!QueuePasses(queued.reported, &queued)) return false;
  const double used = rate ? *rate : rate_->At(iteration_);
  if (queued.reported) queued.report = ReportOf(used);
  queued.report.iteration = iteration_;
  updater_->QueueUpdate(used, iteration_);
  if (queued.reported) updater_->MoveAverage();
  updater_->device()->EndIteration();
  ++iteration_;
  queued_.Push();
  before_tests_.reset();
  ReportWhyNoGraph();
  DrainCompletedIterations(queued.report.displayed || KnowsEachLoss());
  return true;
}

void Solver::ReportWhyNoGraph() {
  if (no_graph_reported_) return;
  const std::string reason = train_->WhyNoGraph();
  if (reason.empty()) return;
  no_graph_reported_ = true;
  options_.log->Write(Severity::kInfo,
                      StrCat("CUDA graphs: each layer is launched by itself: ", reason));
}

bool Solver::QueuePasses(bool may_stop, QueuedIteration* queued) {
  // All ranks must have finite losses before any continues: the others would sum the broken
  // gradients of this one.
  const bool knows = KnowsEachLoss() || ranks_.several();
  double sum = 0;
  queued->marks.resize(static_cast<size_t>(param_.iter_size()));
  for (int pass = 0; pass < param_.iter_size(); ++pass) {
    if (may_stop && GivesUp(pass)) return false;
    PassMark& mark = queued->marks[static_cast<size_t>(pass)];
    mark.Take(*train_);
    QueueForwardAndWarn(train_.get(), options_.log);
    updater_->device()->NotePass(pass);
    if (knows) {
      const double loss = train_->Loss();
      if (!std::isfinite(loss)) throw Diverged(mark, loss, iteration_);
      sum += loss;
    }
    if (pass == 0) train_->ZeroParameterGradients();
    train_->Backward();
  }
  queued->loss = SumGradients(sum / param_.iter_size(), may_stop);
  if (!rate_->FollowsLoss()) return true;
  LossWindow losses = losses_;
  losses.Add(queued->loss);
  if (rate_->ObserveLoss(iteration_, losses.Mean())) ReportDrop(rate_->At(iteration_));
  return true;
}

void Solver::DrainCompletedIterations(bool wait) {
  while (DrainOneIteration(wait)) {
  }
}

bool Solver::DrainOneIteration(bool wait) {
  if (queued_.empty()) return false;
  const std::optional<DeviceRun> outcome = updater_->TakeOutcome(wait);
  if (!outcome) return false;
  DrainOutcome(&queued_.Pop(), *outcome);
  return true;
}

void Solver::DrainOutcome(QueuedIteration* queued, const DeviceRun& outcome) {
  const int64_t iteration = queued->report.iteration;
  if (outcome.end == RunEnd::kLoss) {
    throw Diverged(queued->marks[static_cast<size_t>(outcome.pass)], outcome.bad_loss, iteration);
  }
  drained_loss_ = ranks_.several() ? queued->loss : outcome.loss / param_.iter_size();
  if (queued->reported) {
    losses_.Add(drained_loss_);
    if (updater_->scale() != nullptr) {
      queued->report.loss_scale = outcome.tried;
      queued->report.skipped_updates = outcome.scale.skipped - outcome.skips;
    }
    Deliver(drained_loss_, &queued->report);
  }
  updater_->FollowScale(outcome, iteration);
  if (outcome.end == RunEnd::kUpdate) {
    DeviceState& device = *updater_->device();
    throw DiagnoseUpdate(*train_plan_, device.BrokenGradients(), device.SlotOf(outcome.blob),
                         RunSoFar(iteration));
  }
}

Error Solver::Diverged(const PassMark& mark, double loss, int64_t iteration) {
  return DiagnoseDivergence(config_.train, registry_, *train_, weights(), mark, loss,
                            RunSoFar(iteration));
}

DivergedRun Solver::RunSoFar(int64_t iteration) const {
  return {.iteration = iteration,
          .rate = LearningRate(*rate_).At(iteration),
          .gradient_scale = updater_->gradient_scale(),
          .last_snapshot = snapshots_.LastModel()};
}

double Solver::Iterate(double rate) {
  if (updater_->device() != nullptr) {
    QueueIteration(rate);
    DrainCompletedIterations(true);
    return drained_loss_;
  }
  const std::optional<double> loss = ForwardBackward(false);
  ApplyUpdate(rate);
  ++iteration_;
  return *loss;
}

void Solver::QueueIteration(double rate) {
  if (updater_->device() == nullptr) return void(Iterate(rate));
  IterateOnGpu(rate);
}

void Solver::EndTrial() { DrainCompletedIterations(true); }

void Solver::WithoutTrace(const std::function<void()>& body) {
  DrainCompletedIterations(true);
  const Updater::Copy copy = updater_->TakeCopy();
  SolverState positions;
  train_->SaveState("train", &positions);
  const uint64_t step = train_->step();
  const int64_t iteration = iteration_;

  const auto put_back = [&] {
    updater_->PutBack(copy);
    queued_.Clear();
    train_->RestoreState("train", positions);
    train_->set_step(step);
    iteration_ = iteration;
  };
  try {
    body();
  } catch (...) {
    put_back();
    throw;
  }
  put_back();
}

}  // namespace crema
