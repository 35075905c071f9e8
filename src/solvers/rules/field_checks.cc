#include "solvers/rules/field_checks.h"

#include <cmath>

#include "core/strings.h"
#include "crema.pb.h"

namespace crema {

void FieldChecks::Report(const std::string& field, std::string message) {
  Where where;
  where.field = field;
  problems_.push_back({ErrorCode::kInvalidArgument, std::move(where), std::move(message)});
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
