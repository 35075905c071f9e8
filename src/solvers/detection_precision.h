// Mean average precision of detection tests, as SSD's solver computes it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/log.h"
#include "metrics/box_verdicts.h"
#include "runtime/session.h"
#include "solvers/training_observer.h"

namespace crema {

// Parses the field ap_version: 11point, MaxIntegral or Integral.
std::optional<ApRule> FindApRule(const std::string& ap_version);
inline constexpr const char* kApRules = "11point, MaxIntegral or Integral";  // accepted values

// Thread safety: one thread.
class DetectionPrecision {
 public:
  DetectionPrecision(const Plan& plan, ApRule rule);

  // Call before each test.
  void Start();
  void Add(const Session& session);
  // Returns all that was added since Start, for a Join in another process of the same program.
  std::string Save() const;
  void Join(std::string_view saved);
  // Returns one value for each output: the mean over the classes. A class without objects counts 0,
  // as in SSD. Logs the value of each class unless `log` is null.
  std::vector<OutputValue> Means(LogSink* log) const;

 private:
  struct OfClass {
    std::vector<JudgedDetection> detections;
    int64_t objects = 0;
  };
  using Classes = std::map<int64_t, OfClass>;
  struct Output {
    double loss_weight = 0;
    Classes classes;
  };
  double PrecisionOf(const OfClass& scores) const;

  ApRule rule_;
  std::map<std::string, Output> outputs_;  // by blob
};

}  // namespace crema
