// The training loop.
#include <cmath>
#include <exception>
#include <utility>

#include "core/parallel_for.h"
#include "core/strings.h"
#include "solvers/run_memory.h"
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

void Solver::CheckStart() {
  // Not in the constructor: scripts step through nets that learn nothing.
  std::vector<Problem> problems = CheckTraining(param_, *train_plan_);
  if (!problems.empty()) throw Error(std::move(problems));
  for (const auto& test : tests_) test->RefuseSourceWithoutEnd();
  snapshots_.Prepare(*train_plan_, updater_->rule().histories, epochs_, iteration_,
                     updater_->restored());
  if (iteration_ == 0) {
    for (const std::string& text : {ZeroWeightsWarning(*train_plan_, weights()),
                                    EmptyStatisticsWarning(*train_plan_, weights())}) {
      if (!text.empty()) options_.log->Write(Severity::kWarning, text);
    }
  }
  start_checked_ = true;
}

void Solver::SolveAll() {
  if (!std::exchange(start_checked_, false)) CheckStart();
  if (!param_.time_limit().empty()) deadline_ = Deadline(ParseTimeLimit(param_.time_limit()));
  options_.observer->OnStart(train_plan_->name, iteration_);
  const Ending ending = RunTo(param_.max_iter());
  if (param_.snapshot_after_train() || ending == Ending::kRequest) LastSnapshot();
  if (ending != Ending::kDone) {
    if (ending == Ending::kRule) options_.observer->OnEarlyStop();
    options_.observer->OnEnd(true);
    return;
  }
  if (param_.display() > 0 && iteration_ % param_.display() == 0) {
    losses_.Add(ranks_.Mean(ForwardOnce()));
    options_.observer->OnFinalLoss(iteration_, losses_.Mean());
  }
  const bool interrupted = IsTestDue() && TestAll() == Ending::kRequest;
  if (interrupted) LastSnapshot();
  options_.observer->OnEnd(interrupted);
}

void Solver::LastSnapshot() {
  GatherPositions();
  if (snapshots_.CanWrite() && snapshots_.last() != iteration_) Snapshot();
}

bool Solver::IsTestDue() const {
  if (iteration_ == 0 && !param_.test_initialization()) return false;
  const bool due = param_.test_interval() > 0 && iteration_ % param_.test_interval() == 0;
  return due || epochs_.EndsAt(iteration_, param_.test_interval_epoch());
}

Solver::Ending Solver::RunTo(int64_t end) {
  StartRanks();
  updater_->StartAverage();
  last_report_ = Clock::now();
  test_seconds_ = 0;
  waited_ = WaitedSeconds();
  while (iteration_ < end) {
    if (IsTestDue()) {
      const Ending ending = TestAll();
      if (ending != Ending::kDone) return ending;
    }
    if (!Train()) return Ending::kRequest;
    const Request request = ranks_.several() ? asked_ : Poll();
    const bool asked = std::exchange(snapshot_asked_, false);
    if (snapshots_.IsDue(iteration_, epochs_) || asked || request == Request::kSnapshot) {
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

// Used if no field counts in epochs, when they are first reported.
void Solver::CountEpochsOnce() {
  if (epochs_counted_) return;
  epochs_ = EpochsOf(*train_, param_.iter_size());
  epochs_counted_ = true;
}

void Solver::Report(double loss, double rate) {
  IterationReport report = ReportOf(rate);
  if (const LossScale* const scale = updater_->scale()) {
    report.loss_scale = scale->scale();
    report.skipped_updates = scale->skipped();
  }
  Deliver(loss, &report);
}

// Without the values that the GPU reports later.
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
    report.samples = first.spec.shape[0] * param_.iter_size() * ranks_.count();
  }
  report.ranks = ranks_.times();
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
      reports.push_back(SharesTest(net) ? RunSharedTest(net) : RunTest(net));
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kCancelled) throw;
      // The other ranks share all tests.
      for (++net; net < tests_.size(); ++net) {
        if (SharesTest(net)) ranks_.Share({});
      }
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
  updater_->StartAverage();
  DrainCompletedIterations(true);
  updater_->HostWeights();
  return WithEpoch(tests_.at(net)->Run(iteration_, [this] { PollInTest(); }));
}

TestReport Solver::WithEpoch(TestReport report) {
  CountEpochsOnce();
  report.epoch = epochs_.After(iteration_);
  WarnOfLoss(report);
  return report;
}

// Averaged weights are in rank 0 alone.
bool Solver::SharesTest(size_t net) const {
  return ranks_.SumsInPass() != nullptr && !(param_.ema_decay() > 0) && tests_[net]->CanSplit();
}

TestReport Solver::RunSharedTest(size_t net) {
  std::exception_ptr stop;
  std::string part;
  try {
    part = tests_[net]->RunPart(iteration_, ranks_.own(), [this] { PollInTest(); });
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kCancelled) throw;
    stop = std::current_exception();
    // Now: the other ranks may need longer than a scheduler waits.
    if (snapshots_.CanWrite() && snapshots_.last() != iteration_) TrySnapshot();
  }
  const std::vector<std::string> parts = ranks_.Share(std::move(part));
  if (stop) std::rethrow_exception(stop);
  return WithEpoch(tests_[net]->JoinParts(iteration_, parts));
}

void Solver::HelpToTest() {
  for (size_t net = 0; net < tests_.size(); ++net) {
    if (!SharesTest(net)) continue;
    ranks_.Share(tests_[net]->RunPart(iteration_, ranks_.own(), [this] { ranks_.KeepAlive(); }));
  }
}

void Solver::PollInTest() {
  const Request request = Poll();
  if (request == Request::kSnapshot) TrySnapshot();
  if (request == Request::kStop) Fail(ErrorCode::kCancelled, "Test interrupted.");
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

// A best model that could not be written does not count: the next test that is better than the file
// writes it again.
void Solver::UpdateBest(const std::vector<TestReport>& reports) {
  const MetricTracker before = *best_;
  if (!best_->Update(iteration_, reports)) return;
  if (!snapshots_.WriteBest(RunWeightsNow(), *best_)) best_ = before;
}

// Rank 0 tests and decides; the others take their part in tests that can be divided.
Solver::Ending Solver::TestAll() {
  GatherPositions();
  if (!ranks_.is_first()) HelpToTest();
  const RankGroup::Note outcome = ranks_.Lead([this] {
    const Ending ending = TestHere();
    SolverState decided;
    rate_->Save(&decided);
    return RankGroup::Note{.number = static_cast<double>(ending),
                           .text = decided.SerializeAsString()};
  });
  if (!ranks_.is_first()) {
    SolverState decided;
    CREMA_CHECK(decided.ParseFromString(outcome.text));
    rate_->Restore(decided);
  }
  return static_cast<Ending>(outcome.number);
}

Request Solver::PollAll() { return static_cast<Request>(ranks_.Most(static_cast<int>(Poll()))); }

void Solver::GatherPositions() {
  if (!ranks_.several()) return;
  DrainCompletedIterations(true);  // a failure ends the run before a snapshot
  ranks_.AverageStatistics(*train_);
  updater_->CopyStatistics();
  if (ranks_.GatherPositions(*train_)) return;
  if (ranks_.is_first()) {
    options_.log->Write(Severity::kWarning,
                        StrCat("the ranks have different weights at iteration ", iteration_,
                               ": their processors round differently, or a memory is faulty; all "
                               "continue with those of rank 0"));
  }
  StartRanks();
}

// Copies weights and histories of rank 0 to all.
void Solver::StartRanks() {
  if (!ranks_.several()) return;
  ranks_.CopyFromFirst(iteration_, *train_, updater_->Blobs());
  if (updater_->device() != nullptr) updater_->device()->NoteChange();
}

void Solver::TrySnapshot() {
  snapshots_.TryWrite(iteration_, [this] { Snapshot(); });
}

Request Solver::Poll() {
  ranks_.KeepAlive();
  if (deadline_.IsOver()) {
    if (!std::exchange(deadline_reported_, true)) {
      options_.log->Write(Severity::kInfo,
                          StrCat("time_limit: ", param_.time_limit(), " are over; training stops"));
    }
    return Request::kStop;
  }
  return options_.poll ? options_.poll() : Request::kNone;
}

}  // namespace crema
