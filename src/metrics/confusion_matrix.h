// Confusion matrix and the rates derived from it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace crema {

// Counts pairs (true class, predicted class) of samples or pixels. The rate of a class that neither
// occurs nor was predicted is NaN, and means exclude it; other rates without a denominator are 0,
// as in scikit-learn. Thread safety: one thread.
class ConfusionMatrix {
 public:
  explicit ConfusionMatrix(int64_t classes);

  // Requires: both in 0..classes-1.
  void Add(int64_t truth, int64_t predicted) { ++counts_[Index(truth, predicted)]; }

  int64_t classes() const { return classes_; }
  int64_t Count(int64_t truth, int64_t predicted) const { return counts_[Index(truth, predicted)]; }
  int64_t Total() const;
  int64_t Support(int64_t c) const;    // samples of the class
  int64_t Predicted(int64_t c) const;  // samples predicted as the class

  double Precision(int64_t c) const;  // right / predicted
  double Recall(int64_t c) const;     // right / support
  double F1(int64_t c) const;         // harmonic mean of precision and recall
  double Iou(int64_t c) const;        // right / (predicted or support)

  double Accuracy() const;  // right / all; NaN without any
  using Rate = double (ConfusionMatrix::*)(int64_t) const;
  // Returns the unweighted mean over classes; NaN without any.
  double Mean(Rate rate) const;
  // Returns the mean over classes weighted by their support.
  double WeightedMean(Rate rate) const;

 private:
  size_t Index(int64_t truth, int64_t predicted) const {
    return static_cast<size_t>(truth * classes_ + predicted);
  }
  // part / whole of a class, with the rules above.
  double RateOf(int64_t c, int64_t part, int64_t whole) const;

  int64_t classes_;
  std::vector<int64_t> counts_;  // by true class, then predicted class
};

}  // namespace crema
