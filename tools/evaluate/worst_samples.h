// The samples that a classifier gets most wrong.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "evaluate/report_folder.h"

namespace crema::tools {

struct WorstSample {
  double loss = 0;
  int64_t sample = 0;  // index in the data, from 0
  std::string name;    // name in its data set; may be empty
  int64_t label = 0;
  int64_t predicted = 0;
  double probability = 0;        // of the predicted class
  double label_probability = 0;  // of the true one
  std::string png;               // file; may be empty
};

// Keeps the `most` samples with the highest loss. Thread safety: one thread.
class WorstSamples {
 public:
  explicit WorstSamples(size_t most) : most_(most) {}
  // Returns true if a sample with this loss would be kept.
  bool Wants(double loss) const {
    return kept_.size() < most_ || (most_ > 0 && loss > kept_.back().loss);
  }
  void Add(WorstSample sample);
  // Writes worst.csv, and worst/<rank>.png for samples with a picture.
  void Write(const ReportFolder& folder, const ClassNames& names) const;

 private:
  size_t most_;
  std::vector<WorstSample> kept_;  // worst first
};

}  // namespace crema::tools
