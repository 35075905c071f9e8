// The training loop.
#include <cmath>
#include <utility>

#include "core/strings.h"
#include "core/thread_limit.h"
#include "solvers/snapshot.h"
#include "solvers/snapshot_set.h"
#include "solvers/snapshot_space.h"
#include "solvers/solver.h"

namespace crema {
namespace {

using Clock = std::chrono::steady_clock;

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace

void Solver::Limited(const std::function<void()>& body) {
  if (options_.deterministic) {
    WithThreadLimit(options_.threads, body);
  } else {
    body();
  }
}

void Solver::Solve() {
  Limited([this] { SolveAll(); });
}

bool Solver::Step(int64_t count) {
  bool done = false;
  Limited([&] { done = RunTo(iteration_ + count) == Ending::kDone; });
  return done;
}

TestReport Solver::Test(size_t net) {
  TestReport report;
  Limited([&] { report = RunTest(net); });
  return report;
}

bool Solver::WritesSnapshots() const {
  return IsFirstRank() && !param_.snapshot_prefix().empty() &&
         (param_.snapshot() > 0 || param_.snapshot_epoch() > 0 || param_.snapshot_after_train() ||
          param_.has_snapshot_best() || !param_.time_limit().empty());
}

// What a snapshot needs, where one is planned; where only a signal may ask for one, a lack of it
// must not keep the run from starting.
void Solver::CheckSnapshots(const std::function<void()>& check) const {
  const bool planned = WritesSnapshots();
  if (!planned && (!options_.poll || param_.snapshot_prefix().empty())) return;
  try {
    check();
  } catch (const Error& error) {
    if (planned) throw;
    options_.log->Write(Severity::kWarning,
                        StrCat("this run makes no snapshot when it is stopped: ", error.what()));
  }
}

void Solver::PrepareSnapshots() {
  const std::string& prefix = param_.snapshot_prefix();
  if (prefix.empty() || !IsFirstRank()) return;
  FinishRemovals(prefix, *options_.log);
  if (iteration_ >= param_.max_iter()) return;
  if (const int removed = RemoveTemporaryFiles(prefix); removed > 0) {
    options_.log->Write(Severity::kInfo, StrCat("removed ", removed, " temporary files of '",
                                                prefix, "' that killed runs left"));
  }
  CheckSnapshots([&] {
    const double epoch = epochs_.known() ? static_cast<double>(epochs_.IterationsOf(1)) : 0;
    CheckSnapshotSpace(SnapshotNeedOf(param_, *train_plan_, rule_.histories, iteration_, epoch),
                       FreeBytes(prefix), prefix, *options_.log);
  });
  if (restored_ || iteration_ > 0) return;
  const std::vector<SnapshotFile> others = ListSnapshots(prefix);
  if (others.empty() || others.back().iteration == 0) return;
  options_.log->Write(
      Severity::kWarning,
      StrCat("this run starts at the beginning, but there are snapshots of another run of '",
             prefix, "': --resume=auto would resume from ", others.back().state,
             "; set another snapshot_prefix, or remove them"));
}

void Solver::SolveAll() {
  if (!param_.time_limit().empty()) deadline_ = Deadline(ParseTimeLimit(param_.time_limit()));
  for (const auto& test : tests_) test->RefuseSourceWithoutEnd();
  PrepareSnapshots();
  options_.observer->OnStart(train_plan_->name, iteration_);
  const Ending ending = RunTo(param_.max_iter());
  if (param_.snapshot_after_train() || ending == Ending::kRequest) LastSnapshot();
  if (ending != Ending::kDone) {
    options_.observer->OnEnd(true);
    return;
  }
  if (param_.display() > 0 && iteration_ % param_.display() == 0) {
    losses_.Add(MeanLoss(ForwardOnce()));
    options_.observer->OnFinalLoss(iteration_, losses_.Mean());
  }
  const bool interrupted = IsTestDue() && TestAll() == Ending::kRequest;
  if (interrupted) LastSnapshot();
  options_.observer->OnEnd(interrupted);
}

void Solver::LastSnapshot() {
  GatherPositions();
  if (IsFirstRank() && !param_.snapshot_prefix().empty() && snapshot_iteration_ != iteration_)
    Snapshot();
}

bool Solver::IsTestDue() const {
  if (iteration_ == 0 && !param_.test_initialization()) return false;
  const bool due = param_.test_interval() > 0 && iteration_ % param_.test_interval() == 0;
  return due || epochs_.EndsAt(iteration_, param_.test_interval_epoch());
}

bool Solver::IsSnapshotDue() const {
  const bool due = param_.snapshot() > 0 && iteration_ % param_.snapshot() == 0;
  return due || epochs_.EndsAt(iteration_, param_.snapshot_epoch());
}

// The average begins with the weights that training begins with, wherever they came from.
void Solver::StartAverage() {
  if (average_started_ || !average_) return;
  average_->Reset(weights());
  if (device_) device_->TakeAverage();
  average_started_ = true;
}

Solver::Ending Solver::RunTo(int64_t end) {
  StartRanks();
  StartAverage();
  last_report_ = Clock::now();
  test_seconds_ = 0;
  waited_ = WaitedSeconds();
  while (iteration_ < end) {
    if (IsTestDue()) {
      const Ending ending = TestAll();
      if (ending != Ending::kDone) return ending;
    }
    if (!Train()) return Ending::kRequest;
    const Request request = PollAll();
    const bool asked = std::exchange(snapshot_asked_, false);
    if (IsSnapshotDue() || asked || request == Request::kSnapshot) {
      GatherPositions();
      TrySnapshot();
    }
    if (request != Request::kStop) continue;
    DrainCompletedIterations(true);
    return Ending::kRequest;
  }
  DrainCompletedIterations(true);
  return Ending::kDone;
}

// One iteration.
bool Solver::Train() {
  if (device_) return IterateOnGpu({});
  const std::optional<double> own_loss = ForwardBackward(true);
  if (!own_loss) return false;
  const double loss = JoinGradients(*own_loss);
  losses_.Add(loss);
  const bool drops = rate_->ObserveLoss(iteration_, losses_.Mean());
  const double rate = rate_->At(iteration_);
  if (drops) ReportDrop(rate);
  Report(loss, rate);
  if (ApplyUpdate(rate)) MoveAverage();
  ++iteration_;
  before_tests_.reset();
  return true;
}

// All ranks hear the same, so all give up before the same pass.
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
  BeginOnGpu();
  return true;
}

void Solver::ReportDrop(double rate) {
  options_.log->Write(Severity::kInfo, StrCat("plateau: nothing better for a while; the learning "
                                              "rate is ",
                                              rate, " from iteration ", iteration_));
}

double Solver::WaitedSeconds() const {
  double seconds = 0;
  for (size_t i = 0; i < train_plan_->layers.size(); ++i) {
    if (train_->state(i) != nullptr) seconds += train_->state(i)->WaitedSeconds();
  }
  return seconds;
}

// Where no field counts in them, when they are first told.
void Solver::CountEpochsOnce() {
  if (epochs_counted_) return;
  epochs_ = EpochsOf(*train_, param_.iter_size());
  epochs_counted_ = true;
}

void Solver::Report(double loss, double rate) {
  IterationReport report = ReportOf(rate);
  report.loss_scale = scale_ ? scale_->scale() : 0;
  report.skipped_updates = scale_ ? scale_->skipped() : 0;
  Deliver(loss, &report);
}

// But for what the GPU tells later.
IterationReport Solver::ReportOf(double rate) {
  CountEpochsOnce();
  IterationReport report{.iteration = iteration_,
                         .max_iterations = param_.max_iter(),
                         .rate = rate,
                         .samples = 0,
                         .epoch = epochs_.After(iteration_ + 1),
                         .displayed = param_.display() > 0 && iteration_ % param_.display() == 0,
                         .outputs = {}};
  const PlannedValue& first = train_plan_->values.front();
  if (first.spec.shape.axes() > 0) {
    report.samples = first.spec.shape[0] * param_.iter_size() * RankCount();
  }
  if (report.displayed) report.outputs = OutputsOf(*train_);
  return report;
}

void Solver::Deliver(double loss, IterationReport* report) {
  report->loss = loss;
  report->smoothed_loss = losses_.Mean();
  report->seconds = SecondsSince(last_report_) - std::exchange(test_seconds_, 0);
  const double waited = WaitedSeconds();
  report->wait_seconds = waited - std::exchange(waited_, waited);
  last_report_ = Clock::now();
  options_.observer->OnIteration(*report);
}

Solver::Ending Solver::TestHere() {
  if (tests_.empty()) return Ending::kDone;
  before_tests_.emplace();
  SaveDecisions(&*before_tests_);
  const Clock::time_point start = Clock::now();
  std::vector<TestReport> reports;
  for (size_t net = 0; net < tests_.size(); ++net) {
    options_.observer->OnTestStart(iteration_, net);
    try {
      reports.push_back(RunTest(net));
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kCancelled) throw;
      return Ending::kRequest;
    }
    options_.observer->OnTest(reports.back());
  }
  if (rate_->ObserveTests(iteration_, reports)) ReportDrop(rate_->At(iteration_));
  const bool ended = Judge(reports);
  test_seconds_ += SecondsSince(start);
  return ended ? Ending::kRule : Ending::kDone;
}

TestReport Solver::RunTest(size_t net) {
  StartAverage();
  DrainCompletedIterations(true);
  ReturnWeights();
  TestReport report = tests_.at(net)->Run(iteration_, [this] {
    const Request request = Poll();
    if (request == Request::kSnapshot) TrySnapshot();
    if (request == Request::kStop) Fail(ErrorCode::kCancelled, "Test interrupted.");
  });
  CountEpochsOnce();
  report.epoch = epochs_.After(iteration_);
  WarnOfLoss(report);
  return report;
}

void Solver::WarnOfLoss(const TestReport& report) {
  if (std::isfinite(report.loss) || std::exchange(test_loss_reported_, true)) return;
  options_.log->Write(
      Severity::kWarning,
      StrCat("test net #", report.net, ": the loss of the test at iteration ", report.iteration,
             " is ", report.loss, "; training continues, but these weights may be of no use"));
}

bool Solver::Judge(const std::vector<TestReport>& reports) {
  if (best_) UpdateBest(reports);
  if (!early_) return false;
  early_->Update(iteration_, reports);
  if (!early_->OutOfPatience()) return false;
  const std::string waited = StrCat(early_->waited(), " tests");
  const std::string why = early_->best()
                              ? StrCat(" was best at iteration ", early_->best_iteration(), ": ",
                                       *early_->best(), ", and no better in ", waited, " since")
                              : StrCat(" was never a number in ", waited);
  options_.log->Write(Severity::kInfo,
                      StrCat("early_stop: ", early_->metric(), why, "; training ends"));
  return true;
}

// What is not on the disk is not the best: a test that is better than the file writes it again.
void Solver::UpdateBest(const std::vector<TestReport>& reports) {
  const MetricTracker before = *best_;
  if (best_->Update(iteration_, reports) && !SaveBest()) best_ = before;
}

bool Solver::SaveBest() {
  const std::string path = BestPath(param_);
  try {
    WriteModel(param_, *train_plan_, average_ ? average_->weights() : *weights_, path);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kIoFailure) throw;
    options_.log->Write(Severity::kError,
                        StrCat("snapshot_best: ", error.what(), "; training continues without it"));
    return false;
  }
  options_.observer->OnBest(path, best_->metric(), best_->best().value_or(0));
  return true;
}

Request Solver::Poll() {
  if (deadline_.IsOver()) {
    if (!std::exchange(deadline_reported_, true)) {
      options_.log->Write(Severity::kInfo,
                          StrCat("time_limit: ", param_.time_limit(),
                                 " are over; training stops after iteration ", iteration_));
    }
    return Request::kStop;
  }
  return options_.poll ? options_.poll() : Request::kNone;
}

}  // namespace crema
