// Implements CheckLearningRate, WarnAboutLearningRate and CheckSchedule.
#include <algorithm>
#include <cmath>
#include <utility>

#include "core/strings.h"
#include "crema.pb.h"
#include "solvers/learning_rate.h"

namespace crema {
namespace {

// Problems with where.field set.
class Report {
 public:
  void Add(const std::string& field, std::string message) {
    problems_.push_back({ErrorCode::kInvalidArgument, {.field = field}, std::move(message)});
  }
  std::vector<Problem> Take() { return std::move(problems_); }

 private:
  std::vector<Problem> problems_;
};

bool IsSet(const SolverParameter& param, const std::string& field) {
  const auto* descriptor = SolverParameter::descriptor()->FindFieldByName(field);
  CREMA_CHECK(descriptor != nullptr);
  const auto* reflection = param.GetReflection();
  return descriptor->is_repeated() ? reflection->FieldSize(param, descriptor) > 0
                                   : reflection->HasField(param, descriptor);
}

// Returns "; for example stepsize: 10000", or nothing if no value is typical.
std::string ExampleOf(std::string_view field) {
  constexpr std::pair<std::string_view, std::string_view> kExamples[] = {
      {"gamma", "0.1"},       {"stepsize", "10000"},  {"power", "0.75"},
      {"stepvalue", "10000"}, {"stageiter", "10000"}, {"stagelr", "0.01"}};
  for (const auto& [name, value] : kExamples) {
    if (name == field) return StrCat("; for example ", field, ": ", value);
  }
  return "";
}

class Checker {
 public:
  explicit Checker(const SolverParameter& param) : param_(param) {}

  std::vector<Problem> Check() {
    CheckNumbers();
    CheckRise();
    CheckPolicy();
    return report_.Take();
  }

 private:
  void CheckNumbers() {
    // Caffe accepts a negative rate, and ascends.
    NotNegative("base_lr", param_.base_lr());
    Finite("gamma", param_.gamma());
    Finite("power", param_.power());
    NotNegative("min_lr", param_.min_lr());
    NotNegative("warmup_start_lr", param_.warmup_start_lr());
    NotNegative("rampup_lr", param_.rampup_lr());
    for (int i = 0; i < param_.stagelr_size(); ++i) {
      NotNegative(StrCat("stagelr[", i, "]"), param_.stagelr(i));
    }
  }

  void CheckRise() {
    NotNegative("warmup_iter", param_.warmup_iter());
    NotNegative("rampup_interval", param_.rampup_interval());
    const bool rises = param_.warmup_iter() > 0 || param_.rampup_interval() > 0;
    if (param_.warmup_iter() > 0 && param_.rampup_interval() > 0) {
      report_.Add("rampup_interval",
                  "warmup_iter and rampup_interval both say how the rate rises at the start; keep "
                  "one of them");
    }
    const LrPolicy* policy = FindLrPolicy(param_.lr_policy());
    const bool needs_base = policy == nullptr || Needs(*policy, "base_lr") || rises;
    if (needs_base && !param_.has_base_lr()) {
      report_.Add("", "missing required field 'base_lr'; for example base_lr: 0.01");
    }
  }

  void CheckPolicy() {
    const std::string& name = param_.lr_policy();
    const LrPolicy* policy = FindLrPolicy(name);
    if (policy == nullptr) {
      std::vector<std::string> known;
      for (const LrPolicy& row : LrPolicies()) known.push_back(row.name);
      const std::string list = "; one of: " + Join(known, " ");
      if (name.empty()) {
        report_.Add(
            "", "missing required field 'lr_policy'" + list + "; for example lr_policy: \"fixed\"");
      } else {
        report_.Add("lr_policy",
                    StrCat("unknown lr_policy '", name, "'", DidYouMean(name, known), list));
      }
      return;
    }
    for (const std::string& field : policy->needs) {
      // A missing base_lr is reported for any policy, a missing max_iter where the run's length is
      // known.
      if (field != "base_lr" && field != "max_iter" && !IsSet(param_, field)) Missing(field);
    }
    if (Needs(*policy, "gamma")) NotNegative("gamma", param_.gamma());
    if (Needs(*policy, "stepsize") && param_.has_stepsize() && param_.stepsize() <= 0) {
      report_.Add("stepsize", StrCat("stepsize ", param_.stepsize(), " is not above 0"));
    }
    if (name == "multistep") Ascending("stepvalue", param_.stepvalue());
    if (name == "multifixed") CheckStages();
    if (name == "one_cycle") CheckOneCycle();
    if (name == "plateau") CheckPlateau();
    if (name == "poly" || name == "cosine") CheckFloor();
  }

  void CheckStages() {
    Ascending("stageiter", param_.stageiter());
    const int rates = param_.stagelr_size();
    const int ends = param_.stageiter_size();
    if (rates == 0 || ends == 0 || rates == ends) return;
    report_.Add(rates > ends ? "stagelr" : "stageiter",
                StrCat("there are ", rates, " values of stagelr and ", ends,
                       " of stageiter; give one of each for every stage"));
  }

  void CheckOneCycle() {
    const OneCycleParameter& cycle = param_.one_cycle_param();
    if (!(cycle.pct_start() >= 0 && cycle.pct_start() <= 1)) {
      report_.Add("one_cycle_param.pct_start",
                  StrCat("one_cycle_param.pct_start is ", cycle.pct_start(),
                         "; it is a share of max_iter, 0 to 1"));
    }
    AboveZero("one_cycle_param.div_factor", cycle.div_factor());
    AboveZero("one_cycle_param.final_div_factor", cycle.final_div_factor());
  }

  void CheckPlateau() {
    const bool on_loss = param_.plateau_winsize_size() > 0;
    if (on_loss == param_.has_plateau()) {
      const char* fields =
          "plateau_winsize (iterations without a better training loss) or plateau { } (tests "
          "without a better metric)";
      report_.Add(
          on_loss ? "plateau" : "lr_policy",
          StrCat("lr_policy 'plateau' needs ", on_loss ? "one, not both, of " : "one of ", fields));
      return;
    }
    for (int i = 0; i < param_.plateau_winsize_size(); ++i) {
      if (param_.plateau_winsize(i) < 1) {
        report_.Add(StrCat("plateau_winsize[", i, "]"),
                    StrCat("plateau_winsize is ", param_.plateau_winsize(i), "; use 1 or more"));
      }
    }
    if (param_.has_plateau()) CheckPlateauOnTests();
  }

  // Checks what needs no nets; MetricTracker checks the rest.
  void CheckPlateauOnTests() {
    if (param_.plateau().patience() < 1) {
      report_.Add("plateau.patience",
                  StrCat("plateau.patience is ", param_.plateau().patience(), "; use 1 or more"));
    }
    const double delta = param_.plateau().min_delta();
    if (!(delta >= 0) || !std::isfinite(delta)) {
      report_.Add("plateau.min_delta", StrCat("plateau.min_delta is ", delta, "; use 0 or more"));
    }
    if (param_.test_interval() == 0 && param_.test_interval_epoch() == 0) {
      report_.Add("plateau",
                  "the rate would never drop: plateau looks at tests, but neither test_interval "
                  "nor test_interval_epoch is set");
    }
  }

  void CheckFloor() {
    if (!(param_.min_lr() > param_.base_lr()) || param_.base_lr() < 0) return;
    report_.Add("min_lr", StrCat("min_lr ", param_.min_lr(), " is above base_lr ", param_.base_lr(),
                                 ", but '", param_.lr_policy(), "' goes down to it"));
  }

  static bool Needs(const LrPolicy& policy, const std::string& field) {
    return std::ranges::find(policy.needs, field) != policy.needs.end();
  }

  void Missing(const std::string& field) {
    const bool is_multistep = field == "stepsize" && param_.stepvalue_size() > 0;
    report_.Add("", StrCat("lr_policy '", param_.lr_policy(), "' needs the field '", field, "'",
                           is_multistep ? "; stepvalue belongs to 'multistep'" : ExampleOf(field)));
  }

  bool Finite(const std::string& field, double value) {
    if (std::isfinite(value)) return true;
    report_.Add(field, StrCat(field, " is ", value, ", not a finite number"));
    return false;
  }

  void NotNegative(const std::string& field, double value) {
    if (std::isnan(value) || std::isinf(value)) {
      if (field != "gamma") Finite(field, value);  // gamma was looked at for every policy
    } else if (value < 0) {
      report_.Add(field, StrCat(field, " ", value, " is negative; use 0 or more"));
    }
  }

  void AboveZero(const std::string& field, double value) {
    if (value > 0 && std::isfinite(value)) return;
    report_.Add(field, StrCat(field, " is ", value, "; use a number above 0"));
  }

  void Ascending(const std::string& field, const google::protobuf::RepeatedField<int>& values) {
    if (std::is_sorted(values.begin(), values.end())) return;
    report_.Add(field, StrCat("the ", field, "s are not in ascending order"));
  }

  const SolverParameter& param_;
  Report report_;
};

// Returns the parameters after the largest number of drops.
double AfterAllDrops(SolverParameter param) {
  param.clear_warmup_iter();
  param.clear_rampup_interval();
  LearningRate rate(param);
  SolverState state;
  state.set_current_step(param.plateau_winsize_size());
  rate.Restore(state);
  return rate.At(0);
}

}  // namespace

std::vector<Problem> CheckLearningRate(const SolverParameter& param) {
  return Checker(param).Check();
}

std::vector<Problem> WarnAboutLearningRate(const SolverParameter& param) {
  Report report;
  const bool has_end = param.has_max_iter() && param.max_iter() > 0;
  for (const auto& [field, length] : {std::pair("warmup_iter", param.warmup_iter()),
                                      std::pair("rampup_interval", param.rampup_interval())}) {
    if (has_end && length > param.max_iter()) {
      report.Add(field, StrCat(field, " ", length, " is more than max_iter ", param.max_iter(),
                               ": the rate never reaches base_lr"));
    }
  }
  const int first_drop = param.lr_policy() == "step" ? param.stepsize()
                         : param.lr_policy() == "multistep" && param.stepvalue_size() > 0
                             ? param.stepvalue(0)
                             : 0;
  if (has_end && first_drop >= param.max_iter()) {
    const std::string field = param.lr_policy() == "step" ? "stepsize" : "stepvalue[0]";
    report.Add(field, StrCat(field, " ", first_drop, " is not below max_iter ", param.max_iter(),
                             ": the rate never drops"));
  }
  constexpr float kLargest = 10;  // LARS scales the rate by small numbers
  if (param.base_lr() >= kLargest && param.type() != "LARS") {
    report.Add("base_lr", StrCat("base_lr ", param.base_lr(),
                                 " is very large: training will probably diverge"));
  }
  if (param.weight_decay() > 1) {
    report.Add("weight_decay",
               StrCat("weight_decay ", param.weight_decay(), " is very large: 0.0005 is usual"));
  }
  if (param.lr_policy() == "one_cycle" && param.warmup_iter() > 0) {
    report.Add(
        "warmup_iter",
        StrCat(
            "the rate rises over warmup_iter ", param.warmup_iter(),
            " and continues at the rate that one_cycle, which rises by itself, has by then; leave "
            "warmup_iter out, or use lr_policy \"cosine\""));
  }
  if (param.has_base_lr() && param.has_min_lr() && param.min_lr() > param.base_lr()) {
    report.Add("min_lr", StrCat("min_lr ", param.min_lr(), " is above base_lr ", param.base_lr(),
                                ": no rate is below it"));
  }
  return report.Take();
}

std::vector<Problem> CheckSchedule(const SolverParameter& param) {
  constexpr int64_t kMostSamples = 10'000'000;
  Report report;
  const auto is_good = [](double rate) { return std::isfinite(rate) && rate >= 0; };
  const auto add = [&](double rate, const std::string& when) {
    report.Add(param.has_base_lr() && param.base_lr() < 0 ? "base_lr" : "lr_policy",
               StrCat("the learning rate is ", rate, " ", when, " (lr_policy '", param.lr_policy(),
                      "'); it must be finite and not negative"));
  };
  if (!param.has_max_iter()) return {};
  LearningRate rate(param);
  const int64_t stride = std::max<int64_t>(1, param.max_iter() / kMostSamples);
  for (int64_t iteration = 0; iteration <= param.max_iter(); iteration += stride) {
    const double now = rate.At(iteration);
    if (is_good(now)) continue;
    add(now, StrCat("in iteration ", iteration));
    return report.Take();
  }
  if (param.lr_policy() == "plateau") {
    const double least = AfterAllDrops(param);
    if (!is_good(least)) add(least, "after all drops");
  }
  return report.Take();
}

}  // namespace crema
