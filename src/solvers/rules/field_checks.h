// Checks of solver fields that the update rules read.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "core/error.h"
#include "crema.pb.h"

namespace crema {

// Collects problems, each with the name of its field. Thread safety: one thread.
class FieldChecks {
 public:
  void Report(const std::string& field, std::string message);
  void NotNegative(const std::string& field, double value);  // and finite
  void BelowOne(const std::string& field, double value);     // 0 <= value < 1
  void Positive(const std::string& field, double value);     // and finite
  // `rule` does without momentum.
  void NoMomentum(const SolverParameter& param, const std::string& rule);

  std::vector<Problem> Take() { return std::move(problems_); }

 private:
  std::vector<Problem> problems_;
};

}  // namespace crema
