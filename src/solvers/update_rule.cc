#include "solvers/update_rule.h"

#include <algorithm>
#include <cmath>

#include "core/strings.h"
#include "crema.pb.h"
#include "solvers/learning_rate.h"

namespace crema {

const UpdateRule* FindUpdateRule(const std::string& name) {
  const std::span<const UpdateRule> rules = UpdateRules();
  const auto found = std::ranges::find(rules, name, &UpdateRule::name);
  return found == rules.end() ? nullptr : &*found;
}

std::vector<Problem> CheckUpdate(const UpdateRule& rule, const SolverParameter& param) {
  FieldChecks checks;
  const double limit = param.clip_gradient_value();
  if (std::isnan(limit)) checks.Report("clip_gradient_value", "clip_gradient_value is nan");
  if (limit >= 0 && param.clip_gradients() >= 0) {
    checks.Report("clip_gradient_value",
                  "clip_gradient_value and clip_gradients are both set; keep one of them");
  }
  if (!rule.takes_l1 && param.regularization_type() == "L1") {
    checks.Report("regularization_type",
                  StrCat("solver type '", rule.name,
                         "' has no L1 regularisation; use \"L2\" or another solver type"));
  }
  rule.check(param, &checks);
  return checks.Take();
}

std::vector<Problem> WarnAboutUpdate(const SolverParameter& param) {
  FieldChecks warnings;
  if (param.momentum() >= 1) {
    warnings.Report("momentum", StrCat("momentum is ", param.momentum(),
                                       ": steps add up without end; use less than 1"));
  }
  if (param.weight_decay() < 0) {
    warnings.Report("weight_decay", StrCat("weight_decay is ", param.weight_decay(),
                                           ": weights are driven away from 0; use 0 or more"));
  }
  return warnings.Take();
}

double MomentumAt(const UpdateRule& rule, const SolverParameter& param, int64_t iteration) {
  const double momentum = param.has_momentum() ? double{param.momentum()} : rule.default_momentum;
  return rule.rate_in_history ? momentum * WarmupMomentumFactor(param, iteration) : momentum;
}

void FieldChecks::Report(const std::string& field, std::string message) {
  problems_.push_back({ErrorCode::kInvalidArgument, {.field = field}, std::move(message)});
}

void FieldChecks::NotNegative(const std::string& field, double value) {
  if (std::isfinite(value) && value >= 0) return;
  Report(field, StrCat(field, " is ", value, "; use 0 or more"));
}

void FieldChecks::BelowOne(const std::string& field, double value) {
  if (value >= 0 && value < 1) return;
  Report(field, StrCat(field, " is ", value, "; use 0 or more and less than 1"));
}

void FieldChecks::Positive(const std::string& field, double value) {
  if (std::isfinite(value) && value > 0) return;
  Report(field, StrCat(field, " is ", value, "; use a number above 0"));
}

void FieldChecks::NoMomentum(const SolverParameter& param, const std::string& rule) {
  if (param.momentum() == 0) return;
  Report("momentum", StrCat("momentum is ", param.momentum(), ", but ", rule,
                            " has none; leave it out or use 0"));
}

}  // namespace crema
