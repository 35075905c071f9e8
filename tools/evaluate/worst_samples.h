// The samples that a classifier gets most wrong.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "evaluate/report_folder.h"

namespace crema::tools {

struct WorstSample {
  double loss = 0;
  int64_t sample = 0;  // from 0, in the order of the data
  std::string name;    // in its data set; may be empty
  int64_t label = 0;
  int64_t predicted = 0;
  double probability = 0;        // of the predicted class
  double label_probability = 0;  // of the true one
  std::string png;               // file; may be empty
};

// Keeps the `most` samples of the highest loss. Thread safety: one thread.
class WorstSamples {
 public:
  explicit WorstSamples(size_t most) : most_(most) {}
  // Whether a sample of this loss would be kept.
  bool Wants(double loss) const {
    return kept_.size() < most_ || (most_ > 0 && loss > kept_.back().loss);
  }
  void Add(WorstSample sample);
  // worst.csv, and worst/<rank>.png for those with a picture.
  void Write(const ReportFolder& folder, const ClassNames& names) const;

 private:
  size_t most_;
  std::vector<WorstSample> kept_;  // worst first
};

}  // namespace crema::tools
