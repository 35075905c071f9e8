#include "solvers/learning_rate.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/strings.h"

namespace crema {

double LearningRate::At(int64_t iteration) {
  const double base = param_.base_lr();
  const double gamma = param_.gamma();
  const double power = param_.power();
  const auto iter = static_cast<double>(iteration);
  const std::string& policy = param_.lr_policy();
  if (policy == "fixed") return base;
  if (policy == "step") {
    current_step_ = static_cast<int>(iteration / param_.stepsize());
    return base * std::pow(gamma, current_step_);
  }
  if (policy == "exp") return base * std::pow(gamma, iter);
  if (policy == "inv") return base * std::pow(1 + gamma * iter, -power);
  if (policy == "multistep") {
    if (current_step_ < param_.stepvalue_size() && iteration >= param_.stepvalue(current_step_)) {
      ++current_step_;
    }
    return base * std::pow(gamma, current_step_);
  }
  if (policy == "poly") return base * std::pow(1 - iter / param_.max_iter(), power);
  CREMA_CHECK(policy == "sigmoid");
  return base / (1 + std::exp(-gamma * (iter - param_.stepsize())));
}

namespace {

class Checker {
 public:
  explicit Checker(const SolverParameter& param) : param_(param) {}

  std::vector<Problem> Check() {
    Finite("base_lr", param_.base_lr());
    Finite("gamma", param_.gamma());
    Finite("power", param_.power());
    if (!param_.has_base_lr()) Report("", "missing required field 'base_lr'");
    const std::string& policy = param_.lr_policy();
    const std::vector<std::string> known = {"fixed",     "step", "exp",    "inv",
                                            "multistep", "poly", "sigmoid"};
    if (policy.empty()) {
      Report("", "missing required field 'lr_policy'; one of: " + Join(known, " "));
    } else if (std::ranges::find(known, policy) == known.end()) {
      Report("lr_policy", StrCat("unknown lr_policy '", policy, "'", DidYouMean(policy, known),
                                 "; one of: ", Join(known, " ")));
    } else {
      CheckFieldsOf(policy);
    }
    return std::move(problems_);
  }

 private:
  void CheckFieldsOf(const std::string& policy) {
    const bool uses_gamma = policy != "fixed" && policy != "poly";
    if (uses_gamma && !param_.has_gamma()) Missing("gamma");
    if (uses_gamma && param_.gamma() < 0) Report("gamma", StrCat(param_.gamma(), " is negative"));
    if ((policy == "inv" || policy == "poly") && !param_.has_power()) Missing("power");
    if (policy == "step" || policy == "sigmoid") {
      if (!param_.has_stepsize()) {
        Missing("stepsize");
      } else if (param_.stepsize() <= 0) {
        Report("stepsize", StrCat(param_.stepsize(), " is not above 0"));
      }
    }
    if (policy == "multistep" &&
        !std::is_sorted(param_.stepvalue().begin(), param_.stepvalue().end())) {
      Report("stepvalue", "the stepvalues are not in ascending order");
    }
  }

  void Missing(const std::string& field) {
    Report("", StrCat("lr_policy '", param_.lr_policy(), "' needs the field '", field, "'"));
  }

  void Finite(const std::string& field, double value) {
    if (!std::isfinite(value)) Report(field, StrCat(field, " is ", value, ", not a finite number"));
  }

  void Report(const std::string& field, std::string message) {
    Where where;
    where.field = field;
    problems_.push_back({ErrorCode::kInvalidArgument, std::move(where), std::move(message)});
  }

  const SolverParameter& param_;
  std::vector<Problem> problems_;
};

}  // namespace

std::vector<Problem> CheckLearningRate(const SolverParameter& param) {
  return Checker(param).Check();
}

}  // namespace crema
