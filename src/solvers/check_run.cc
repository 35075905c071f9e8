#include "solvers/check_run.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "core/log.h"
#include "core/machine_limits.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "graph/replace_sources.h"
#include "runtime/epoch_runner.h"
#include "runtime/session.h"
#include "runtime/weights.h"
#include "solvers/diagnose.h"
#include "solvers/epochs.h"
#include "solvers/freeze.h"
#include "solvers/learning_rate.h"
#include "solvers/run_memory.h"
#include "solvers/run_mistakes.h"
#include "solvers/run_rules.h"
#include "solvers/snapshot.h"
#include "solvers/snapshot_set.h"
#include "solvers/test_net.h"
#include "solvers/update_rule.h"

namespace crema {
namespace {

struct DataCheck {
  const NetOfRun& net;
  const Registry& registry;
  int threads = 1;
  uint64_t seed = 1;
  int64_t samples = 0;
  std::function<void(const Session&)> on_open;  // once the sources are open; may be empty
};

constexpr size_t kMostProblems = 10;  // of one net
// A net that fails in every batch would be planned and run once more for each.
constexpr int64_t kMostBadBatches = 100;

// Returns the size of the smallest source; 0 if all are endless.
int64_t ShortestEpoch(const Session& session) {
  int64_t epoch = 0;
  for (size_t i = 0; i < session.plan().layers.size(); ++i) {
    const LayerSessionState* state = session.state(i);
    const int64_t size = state == nullptr ? 0 : state->EpochSize();
    if (size > 0 && (epoch == 0 || size < epoch)) epoch = size;
  }
  return epoch;
}

// Moves readers past a batch that they cannot read.
void SkipBatch(const PassMark& bad, int64_t batch, Session* session) {
  SolverState readers = bad.readers();
  for (LayerState& layer : *readers.mutable_layer_state()) {
    if (layer.has_position()) layer.set_position(layer.position() + static_cast<uint64_t>(batch));
  }
  session->RestoreState("train", readers);
}

bool IsAboutData(const Problem& problem) { return ExitCode(problem.code) == 3; }

// Problems of batches, each once.
class BadBatches {
 public:
  // `begin` is put before the first message of this problem.
  void Add(const Problem& problem, const std::string& begin = "") {
    ++batches_;
    for (Entry& entry : entries_) {
      if (ToString(entry.problem) != ToString(problem)) continue;
      ++entry.more;
      return;
    }
    entries_.push_back({problem, begin});
  }

  bool IsFull() const { return entries_.size() >= kMostProblems || batches_ >= kMostBadBatches; }

  std::vector<Problem> Report() const {
    std::vector<Problem> problems;
    for (const Entry& entry : entries_) {
      Problem& told = problems.emplace_back(entry.problem);
      told.message = entry.begin + told.message;
      if (entry.more == 0) continue;
      told.message +=
          StrCat("; the same in ", entry.more, entry.more == 1 ? " more batch" : " more batches");
    }
    return problems;
  }

 private:
  struct Entry {
    Problem problem;
    std::string begin;
    int64_t more = 0;  // batches, besides the first
  };

  std::vector<Entry> entries_;
  int64_t batches_ = 0;
};

// The session, its data, and the findings.
class BatchChecker {
 public:
  BatchChecker(const DataCheck& check, const Weights& weights, Session* session,
               CheckedNet* checked)
      : check_(check), weights_(weights), session_(*session), checked_(*checked) {}

  std::vector<Problem> Check(int64_t samples) {
    for (int64_t done = 0; done < samples && !bad_.IsFull(); done += checked_.batch) {
      mark_.Take(session_);
      if (!Run(done / checked_.batch)) break;
    }
    return bad_.Report();
  }

 private:
  // Returns false if the data after this batch cannot be read.
  bool Run(int64_t batch) {
    try {
      const double loss = session_.Forward();
      if (!std::isfinite(loss)) {
        AddBroken(batch, loss);
        return true;
      }
      if (checked_.samples == 0) checked_.loss = loss;
      checked_.samples += checked_.batch;
      return true;
    } catch (const Error& error) {
      if (error.code() == ErrorCode::kInternal) throw;
      bad_.Add(error.problems().front());
      if (!IsAboutData(error.problems().front())) return false;
      SkipBatch(mark_, checked_.batch, &session_);
      return true;
    }
  }

  // Nothing was trained yet: neither rate nor snapshot matters.
  void AddBroken(int64_t batch, double loss) {
    const BrokenPass pass =
        DiagnosePass(check_.net, check_.registry, session_, weights_, mark_, /*iteration=*/0);
    const std::string samples = pass.samples.empty() ? "" : StrCat(" (samples ", pass.samples, ")");
    bad_.Add({ErrorCode::kDataLoss, {.layer = pass.layer}, pass.text},
             StrCat("the loss of batch ", batch, samples, " is ", PrintNumber(loss), ". "));
  }

  const DataCheck& check_;
  const Weights& weights_;
  Session& session_;
  CheckedNet& checked_;
  BadBatches bad_;
  PassMark mark_;
};

// Returns the problems of the batches, at most ten: batches after a bad one are checked too. A
// problem of several batches occurs once, with their number. Layers found in `weights` use them,
// and nothing is changed. Fills batch, epoch, samples and loss of `checked`. Throws errors that
// keep the net as a whole from running.
std::vector<Problem> CheckData(const DataCheck& check, const Weights& weights,
                               CheckedNet* checked) {
  std::vector<Problem> warnings;  // from planning, reported at the end
  const auto plan =
      MakePlan(check.net.file.net, check.net.file.source, check.net.state, check.registry,
               {.threads = check.threads, .backward = false}, &warnings);
  const std::shared_ptr<const Weights> shared = Weights::ShareWith(*plan, weights, check.seed);
  Session session(plan, shared, ExecContext(check.threads, check.seed));
  checked->batch = FirstBatch(*plan);
  checked->epoch = ShortestEpoch(session);
  if (check.on_open) check.on_open(session);
  int64_t samples = check.samples;
  if (checked->epoch > 0) samples = std::min(samples, checked->epoch);
  return BatchChecker(check, *shared, &session, checked).Check(samples);
}

// Sets statistics that no step has counted yet to 1, as train tests after steps only: divided by
// variances of 0, a deep net overflows.
void SetUncountedStatistics(const Plan& plan, Weights* weights) {
  for (size_t s = 0; s < plan.parameters.size(); ++s) {
    if (!plan.parameters[s].statistic) continue;
    const std::span<float> values = weights->blob(s).span<float>();
    if (std::ranges::all_of(values, [](float value) { return value == 0; })) {
      std::ranges::fill(values, 1.0F);
    }
  }
}

// Collects the warnings of LoadFiles, without its tables.
class WarningsToReport final : public LogSink {
 public:
  explicit WarningsToReport(CheckReport* report) : report_(report) {}
  void Write(Severity severity, std::string_view message) override {
    if (severity == Severity::kInfo) return;
    report_->warnings.push_back({ErrorCode::kInvalidArgument, {}, std::string(message)});
  }

 private:
  CheckReport* const report_;
};

class RunChecker {
 public:
  RunChecker(const SolverFile& solver, const Registry& registry, const CheckOptions& options)
      : solver_(solver), param_(solver_.solver), registry_(registry), options_(options) {
    if (options_.threads <= 0) options_.threads = AvailableProcessors();
    if (options_.memory < 0) options_.memory = AvailableMemory();
  }

  CheckReport Check() {
    Add(solver_.warnings, &report_.warnings);
    std::unique_ptr<RunConfig> config = Configure();
    if (config) CheckNets(config.get());  // finds the length of the run if it counts epochs
    if (RatesAreKnown() && param_.has_max_iter()) CheckRates();
    CheckSnapshots();
    return std::move(report_);
  }

 private:
  struct PlannedNet {
    std::string role;
    NetOfRun* net;
    std::shared_ptr<const Plan> plan;
    bool can_run = true;  // its data are available
  };

  static void AddEach(const std::vector<Problem>& more, std::vector<Problem>* to) {
    for (const Problem& problem : more) {
      const auto same = [&](const Problem& p) { return ToString(p) == ToString(problem); };
      if (std::ranges::none_of(*to, same)) to->push_back(problem);
    }
  }

  // The same without problems of one net that differ in numbers alone from those of another: nets
  // of one file have the same problems, for batches of other sizes.
  static void Add(const std::vector<Problem>& more, std::vector<Problem>* to) {
    std::vector<std::string> known;
    for (const Problem& problem : *to) known.push_back(PlaceAndWords(problem));
    std::vector<Problem> fresh;
    for (const Problem& problem : more) {
      if (std::ranges::find(known, PlaceAndWords(problem)) == known.end()) fresh.push_back(problem);
    }
    AddEach(fresh, to);
  }

  // Returns the problem without the numbers in its message.
  static std::string PlaceAndWords(const Problem& problem) {
    if (problem.where.line == 0) return ToString(problem);
    Problem bare = problem;
    std::erase_if(bare.message, [](char c) { return c >= '0' && c <= '9'; });
    return ToString(bare);
  }

  // Adds the errors of `body` about the run to the report. Returns false if it threw.
  template <typename Body>
  bool Collect(Body&& body) {
    try {
      body();
      return true;
    } catch (const Error& error) {
      if (error.code() == ErrorCode::kInternal) throw;
      Add(error.problems(), &report_.problems);
      return false;
    }
  }

  std::unique_ptr<RunConfig> Configure() {
    std::unique_ptr<RunConfig> config;
    const auto read = [&](const SolverFile& file) {
      return Collect(
          [&] { config = std::make_unique<RunConfig>(MakeRunConfig(file, options_.settings)); });
    };
    if (!read(solver_)) read(NetsOnly());
    if (config) Add(config->solver.warnings, &report_.warnings);
    return config;
  }

  // A schedule can be computed if all of its fields are valid.
  bool RatesAreKnown() const { return CheckLearningRate(param_).empty(); }

  // Returns the nets alone, which can be checked although other fields are wrong.
  SolverFile NetsOnly() const {
    static constexpr std::string_view kKept[] = {
        "net",      "net_param",      "train_net", "train_net_param", "train_state",
        "test_net", "test_net_param", "test_iter", "test_state",      "freeze"};
    SolverFile file = solver_;
    SolverParameter& only = file.solver;
    std::vector<const google::protobuf::FieldDescriptor*> fields;
    only.GetReflection()->ListFields(only, &fields);
    for (const auto* field : fields) {
      if (std::ranges::find(kKept, std::string_view(field->name())) == std::end(kKept)) {
        only.GetReflection()->ClearField(&only, field);
      }
    }
    if (!CheckFreeze(only).empty()) only.clear_freeze();
    only.set_base_lr(1);
    only.set_lr_policy("fixed");
    only.set_max_iter(1);
    if (only.test_iter_size() > 0) only.set_test_interval(1);
    for (int& iterations : *only.mutable_test_iter()) iterations = std::max(1, iterations);
    return file;
  }

  void CheckNets(RunConfig* config) {
    std::vector<PlannedNet> nets;
    PlanNet("train", true, &config->train, &nets);
    if (!nets.empty()) HoldFrozen(config->solver, &nets.front());
    for (size_t i = 0; i < config->tests.size(); ++i) {
      PlanNet(StrCat("test#", i), false, &config->tests[i], &nets);
    }
    CheckRules(*config, nets);
    if (nets.empty()) return;
    WarnAboutTests(*config, nets);
    const bool fits = CheckMemory(nets);
    if (nets.front().role == "train") train_plan_ = nets.front().plan;
    if (fits) RunNets(*config, nets);
    if (nets.size() > 1) Add(WarnAboutIdleRules(solver_, epochs_), &report_.warnings);
  }

  void PlanNet(const std::string& role, bool backward, NetOfRun* net,
               std::vector<PlannedNet>* nets) {
    const PlanOptions options{.threads = options_.threads, .backward = backward};
    std::vector<Problem> warnings;
    std::shared_ptr<const Plan> plan;
    const bool whole = Collect([&] { plan = PlanNetOfRun(*net, registry_, options, &warnings); });
    if (whole && role != "train") Add(WarnAboutRandomTests(*net), &warnings);
    Add(warnings, &report_.warnings);
    if (!whole) plan = PlanWithoutData(*net, options);
    if (plan == nullptr) return;
    report_.nets.push_back({.role = role,
                            .name = plan->name,
                            .layers = int64_t{plan->written.layer_size()},
                            .parameters = plan->ParameterCount()});
    nets->push_back({.role = role, .net = net, .plan = std::move(plan), .can_run = whole});
  }

  void HoldFrozen(const SolverFile& solver, PlannedNet* train) {
    if (!train->can_run) {  // it cannot be planned again; the names are known
      Collect([&] { FrozenLayers(solver, *train->plan); });
      return;
    }
    Collect(
        [&] { train->plan = HoldFrozenLayers(solver, train->plan, registry_, train->net).plan; });
    Add(CheckTraining(solver_.solver, *train->plan), &report_.problems);
    Add(WarnAboutFrozenNet(solver_, *train->plan), &report_.warnings);
  }

  void WarnAboutTests(const RunConfig& config, const std::vector<PlannedNet>& nets) {
    if (nets.front().role != "train") return;
    for (size_t i = 1; i < nets.size(); ++i) {
      const auto index = static_cast<size_t>(nets[i].net - config.tests.data());
      Add(WarnAboutUntrainedLayers(*nets.front().plan, *nets[i].net, *nets[i].plan, index),
          &report_.warnings);
    }
  }

  void CheckRules(const RunConfig& config, const std::vector<PlannedNet>& nets) {
    std::vector<const Plan*> tests;
    for (const PlannedNet& net : nets) {
      if (net.role != "train") tests.push_back(net.plan.get());
    }
    if (tests.size() < config.tests.size()) return;  // tests have other errors
    std::optional<LearningRate> rate;
    if (RatesAreKnown()) rate.emplace(param_);
    Collect([&] { MakeRunRules(solver_, tests, rate ? &*rate : nullptr); });
  }

  // Plans the net without data, as missing data hide later problems. Returns null if there is
  // nothing to plan.
  std::shared_ptr<const Plan> PlanWithoutData(const NetOfRun& net, const PlanOptions& options) {
    NetParameter text = net.file.net;
    try {
      ReplaceSources({}, registry_, &text);
    } catch (const Error&) {
      return nullptr;  // the text does not give the size of the images
    }
    std::vector<Problem> warnings;
    std::shared_ptr<const Plan> plan;
    Collect(
        [&] { plan = MakePlan(text, net.file.source, net.state, registry_, options, &warnings); });
    return plan;
  }

  int Histories() const {
    const UpdateRule* rule = FindUpdateRule(param_.type());
    return rule == nullptr ? 0 : rule->histories;
  }

  bool CheckMemory(const std::vector<PlannedNet>& nets) {
    for (const PlannedNet& net : nets) {
      report_.memory_bytes +=
          net.role == "train" ? TrainingBytes(param_, *net.plan) : TestingBytes(*net.plan);
    }
    report_.available_memory = options_.memory;
    const std::optional<Problem> problem = FindMemoryProblem(report_.memory_bytes, options_.memory);
    if (problem) report_.problems.push_back(*problem);
    return !problem;
  }

  void RunNets(const RunConfig& config, const std::vector<PlannedNet>& nets) {
    const bool any_runs = std::ranges::any_of(nets, &PlannedNet::can_run);
    if (!any_runs && options_.weights.paths.empty()) return;
    const PlannedNet& first = nets.front();  // the training net, unless it is the faulty one
    const uint64_t seed =
        param_.random_seed() < 0 ? 1 : static_cast<uint64_t>(param_.random_seed());
    const std::shared_ptr<Weights> weights = Weights::Make(*first.plan, seed);
    WarningsToReport log(&report_);
    if (first.role == "train") {
      Collect([&] { LoadFiles(options_.weights, *first.plan, weights.get(), &log); });
      for (const std::string& text : {ZeroWeightsWarning(*first.plan, *weights),
                                      EmptyStatisticsWarning(*first.plan, *weights)}) {
        if (!text.empty()) log.Write(Severity::kWarning, text);
      }
    }
    SetUncountedStatistics(*first.plan, weights.get());
    for (size_t i = 0; i < nets.size(); ++i) {
      if (!nets[i].can_run) continue;
      Collect([&] {
        const DataCheck check{.net = *nets[i].net,
                              .registry = registry_,
                              .threads = options_.threads,
                              .seed = seed,
                              .samples = options_.samples,
                              .on_open = [&](const Session& session) {
                                Collect([&] { CheckEnd(config, nets[i], session); });
                              }};
        AddEach(CheckData(check, *weights, &report_.nets[i]), &report_.problems);
      });
    }
  }

  // Counts epochs if the source has a known size.
  void CheckEnd(const RunConfig& config, const PlannedNet& net, const Session& session) {
    if (net.role == "train") {
      if (param_.iter_size() > 0) epochs_ = CountEpochs(session, &solver_);
      if (const Epochs batches = EpochsOf(session, 1); batches.After(1) >= 2) {
        report_.warnings.push_back(
            {ErrorCode::kInvalidArgument,
             {.file = net.net->file.source.file},
             StrCat("a batch takes each of the ", batches.samples(), " samples ", batches.After(1),
                    " times: use a smaller batch_size")});
      }
      return;
    }
    const auto index = static_cast<size_t>(net.net - config.tests.data());
    if (config.test_iterations[index] == 0) RefuseTestWithoutEnd(*net.net, session, index);
  }

  void CheckRates() {
    report_.policy = param_.lr_policy();
    report_.iterations = param_.max_iter();
    for (Problem problem : CheckSchedule(param_)) {
      problem.where = solver_.source.Locate(problem.where.field);
      report_.problems.push_back(std::move(problem));
    }
    LearningRate rate(param_);
    report_.first_rate = rate.At(0);
    constexpr int64_t kMost = 10'000'000;
    const int64_t iterations = std::min<int64_t>(param_.max_iter(), kMost);
    for (int64_t i = 0; i < iterations; ++i) report_.last_rate = rate.At(i);
  }

  void CheckSnapshots() {
    if (param_.snapshot_prefix().empty() || train_plan_ == nullptr) return;
    const double epoch = epochs_.known() ? static_cast<double>(epochs_.IterationsOf(1)) : 0;
    const SnapshotNeed need = SnapshotNeedOf(param_, *train_plan_, Histories(), 0, epoch);
    if (need.all == 0) return;
    report_.snapshot_prefix = param_.snapshot_prefix();
    report_.snapshots = need.count;
    report_.snapshot_bytes = static_cast<int64_t>(need.once);
    Collect([&] { CheckSnapshotNames(param_, *train_plan_); });
    if (!Collect([&] { ProbeSnapshotFolder(param_.snapshot_prefix()); })) return;
    const uint64_t free = FreeBytes(param_.snapshot_prefix());
    if (free > uint64_t{INT64_MAX}) return;  // unknown
    report_.free_bytes = static_cast<int64_t>(free);
    if (need.all <= free) return;
    report_.problems.push_back(
        {ErrorCode::kIoFailure, solver_.source.Locate("snapshot_prefix"),
         StrCat(need.count, need.count == 1 ? " snapshot of " : " snapshots of ",
                Mebibytes(report_.snapshot_bytes), need.count == 1 ? " needs " : " need ",
                Mebibytes(static_cast<int64_t>(need.all)), ", but there are ",
                Mebibytes(report_.free_bytes), " free on the disk: make room",
                need.count == 1 ? "" : ", or set snapshot_keep")});
  }

  SolverFile solver_;  // with max_iter, once its epochs are counted
  const SolverParameter& param_;
  const Registry& registry_;
  CheckOptions options_;
  CheckReport report_;
  Epochs epochs_;
  std::shared_ptr<const Plan> train_plan_;  // null when it could not be made
};

template <typename Body>
CheckReport Timed(Body&& body) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point begin = Clock::now();
  CheckReport report = body();
  report.seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  return report;
}

}  // namespace

CheckReport CheckRun(const SolverFile& solver, const Registry& registry,
                     const CheckOptions& options) {
  return Timed([&] { return RunChecker(solver, registry, options).Check(); });
}

int ExitCode(const CheckReport& report) {
  int code = 0;
  for (const Problem& problem : report.problems) {
    if (ExitCode(problem.code) != 3) return 2;
    code = 3;
  }
  return code;
}

}  // namespace crema
