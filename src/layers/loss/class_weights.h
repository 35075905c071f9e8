// Factors on the loss of each class: a list, or by how often each class occurs in the batch.
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
  // Throws about the fields of loss_param.
  explicit ClassWeights(const Layer& layer);

  // Whether any class has another factor than 1.
  bool any() const { return balanced_ || !list_.empty(); }
  bool balanced() const { return balanced_; }
  // By class; empty where there is no list.
  std::span<const double> list() const { return list_; }

  // Throws when there are not as many weights as classes.
  void CheckCount(const Layer& layer, int64_t classes) const;

  // The factor of each class for a batch with these labels, which are valid. Balanced: labels of
  // the batch / (classes that it holds * labels of the class), so that all factors together weigh
  // as much as none; 0 for classes that it does not hold.
  template <typename T>
  void Factors(std::span<const T> labels, std::optional<int32_t> ignored,
               std::span<double> factors) const;

 private:
  std::vector<double> list_;
  const char* list_field_ = "class_weight";
  bool balanced_ = false;
};

}  // namespace crema
