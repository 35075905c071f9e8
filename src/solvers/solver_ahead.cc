// Iterations on a GPU. The host queues the next ones before it has heard of the first, and waits
// only where somebody wants to see something: at a display, before tests and snapshots, at the end.
// What an iteration decides (the loss scale, and whether anything is finite) the GPU decides, and
// tells later.
#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "core/strings.h"
#include "runtime/forward_warnings.h"
#include "solvers/solver.h"

namespace crema {

void Solver::BeginOnGpu() {
  if (!device_) return;
  queued_.Clear();
  device_->Begin(scale_ ? &scale_->state() : nullptr);
}

// Where the rate follows from the loss, and where a batch is handed over: it could not be read
// again to say what was wrong with it.
bool Solver::KnowsEachLoss() const {
  if (rate_->FollowsLoss()) return true;
  if (options_.same_batch) return false;
  return std::ranges::any_of(train_plan_->layers, [](const PlannedLayer& layer) {
    return layer.type->traits.fed_by_program;
  });
}

bool Solver::IterateOnGpu(std::optional<double> rate) {
  if (queued_.full()) DrainOneIteration(true);  // the GPU has the others to work on
  QueuedIteration& ahead = queued_.Next();
  ahead.reported = !rate.has_value();
  if (!QueuePasses(ahead.reported, &ahead)) return false;
  const double used = rate ? *rate : rate_->At(iteration_);
  if (ahead.reported) ahead.report = ReportOf(used);
  ahead.report.iteration = iteration_;
  const UpdateArgs args = ArgsOfUpdate(used);
  device_->Update(rule_, args, param_.clip_gradients() * ranks_.count(),
                  scale_ ? scale_->growth_interval() : 0, slots_);
  if (ahead.reported) MoveAverage();
  device_->EndIteration();
  ++iteration_;
  queued_.Push();
  before_tests_.reset();
  ReportWhyNoGraph();
  DrainCompletedIterations(ahead.report.displayed || KnowsEachLoss());
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

bool Solver::QueuePasses(bool stop_heard, QueuedIteration* ahead) {
  // All ranks have good losses before any goes on: else the others would go on with what this one
  // spoils.
  const bool knows = KnowsEachLoss() || ranks_.several();
  double sum = 0;
  ahead->marks.resize(static_cast<size_t>(param_.iter_size()));
  for (int pass = 0; pass < param_.iter_size(); ++pass) {
    if (stop_heard && GivesUp(pass)) return false;
    PassMark& mark = ahead->marks[static_cast<size_t>(pass)];
    mark.Take(*train_);
    QueueForwardAndWarn(train_.get(), options_.log);
    device_->NotePass(pass);
    if (knows) {
      const double loss = train_->Loss();
      if (!std::isfinite(loss)) {
        throw DiagnoseDivergence(config_.train, registry_, *train_, weights(), mark, loss,
                                 RunSoFar(iteration_));
      }
      sum += loss;
    }
    if (pass == 0) train_->ZeroLearnedGradients();
    train_->Backward();
  }
  ahead->loss = ranks_.SumGradients(sum / param_.iter_size(), train_.get());
  if (!rate_->FollowsLoss()) return true;
  LossWindow losses = losses_;
  losses.Add(ahead->loss);
  if (rate_->ObserveLoss(iteration_, losses.Mean())) ReportDrop(rate_->At(iteration_));
  return true;
}

void Solver::DrainCompletedIterations(bool wait) {
  while (DrainOneIteration(wait)) {
  }
}

bool Solver::DrainOneIteration(bool wait) {
  if (queued_.empty()) return false;
  const std::optional<DeviceRun> outcome = device_->TakeOutcome(wait);
  if (!outcome) return false;
  DrainOutcome(&queued_.Pop(), *outcome);
  return true;
}

void Solver::DrainOutcome(QueuedIteration* ahead, const DeviceRun& outcome) {
  const int64_t iteration = ahead->report.iteration;
  gradient_scale_ = 1.0 / (param_.iter_size() * ranks_.count() * outcome.tried);
  if (outcome.end == RunEnd::kLoss) {
    throw DiagnoseDivergence(config_.train, registry_, *train_, weights(),
                             ahead->marks[static_cast<size_t>(outcome.pass)], outcome.bad_loss,
                             RunSoFar(iteration));
  }
  heard_loss_ = ranks_.several() ? ahead->loss : outcome.loss / param_.iter_size();
  if (ahead->reported) {
    losses_.Add(heard_loss_);
    if (scale_) {
      ahead->report.loss_scale = outcome.tried;
      ahead->report.skipped_updates = outcome.scale.skipped - outcome.skips;
    }
    Deliver(heard_loss_, &ahead->report);
  }
  if (scale_) scale_->Follow(outcome.scale);
  if (outcome.skips != 0) ReportSkippedUpdate(iteration, outcome.tried);
  if (outcome.end == RunEnd::kUpdate) {
    throw DiagnoseUpdate(*train_plan_, device_->BrokenGradients(), device_->SlotOf(outcome.blob),
                         RunSoFar(iteration));
  }
}

}  // namespace crema
