// Means of the outputs of a net over many batches.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "runtime/session.h"

namespace crema {

struct EvaluatedOutput {
  std::string blob;
  int64_t element = 0;
  double mean = 0;
  double loss_weight = 0;
};

// Returns true if this output holds the rows of a DetectionEvaluate layer: they are not scores but
// verdicts on boxes, in any number, which are evaluated over all batches.
bool HoldsVerdicts(const Plan& plan, int output);

// Outputs with more elements, for a batch or a sample, are maps and no results: they are not
// reported value by value.
inline constexpr int64_t kMostReportedElements = 1000;

// One sum for each element of each output. Omits a blob whose size changes from batch to batch, by
// name, and one of more than kMostReportedElements. Thread safety: one thread.
class OutputMeans {
 public:
  // Returns true if the first axis of a blob is the batch and is averaged over too.
  using PerSample = std::function<bool(const PlannedValue&)>;

  // Starts sums over these outputs of a plan, except for those that hold verdicts.
  void Start(const Plan& plan, const std::vector<int>& outputs, const PerSample& per_sample);
  // Adds a batch of `samples`, which is also its weight.
  void Add(const Session& session, int64_t samples);
  std::vector<EvaluatedOutput> Means() const;
  std::vector<std::string> LeftOut() const;

 private:
  struct Output {
    std::string blob;
    double loss_weight = 0;
    bool per_sample = false;
    bool changes = false;  // its size changes
    bool large = false;
    double weight = 0;  // so far
    std::vector<double> sums;
  };
  static void AddTo(Output* output, const ConstTensorView& blob, int64_t samples);

  std::vector<Output> outputs_;
};

// Returns a message about an omitted output.
std::string DescribeLeftOut(const std::string& blob);

}  // namespace crema
