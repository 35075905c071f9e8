// Weights of classes in a loss: a given list, or computed from the class frequencies of the batch.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "graph/layer.h"

namespace crema {

// Reads class_weight, class_weighting_mode and SegNet's class_weighting and weight_by_label_freqs.
// Thread safety: const after construction.
class ClassWeights {
 public:
  // Throws if a field of loss_param is invalid.
  explicit ClassWeights(const Layer& layer);

  // Returns true if any class may have a factor other than 1.
  bool any() const { return balanced_ || !list_.empty(); }
  bool balanced() const { return balanced_; }
  // Indexed by class; empty without a list.
  std::span<const double> list() const { return list_; }

  // Throws if the number of weights differs from the number of classes.
  void CheckCount(const Layer& layer, int64_t classes) const;

  // Writes the factor of each class for a batch with these labels, which must be valid. Balanced
  // factors are (labels in the batch) / (classes that occur * labels of the class), so that the
  // total weight equals that of unweighted labels; classes that do not occur get 0.
  template <typename T>
  void Factors(std::span<const T> labels, std::optional<int32_t> ignored,
               std::span<double> factors) const;

 private:
  std::vector<double> list_;
  const char* list_field_ = "class_weight";
  bool balanced_ = false;
};

}  // namespace crema
