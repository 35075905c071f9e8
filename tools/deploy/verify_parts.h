// Comparisons and output of `deploy verify`.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "inference/compare_models.h"

namespace crema::tools {

// Accepts values with max |a - b| <= atol + rtol * max |a|.
struct Tolerance {
  double atol = 0;
  double rtol = 0;
};

// Compares the outputs of two models on the same inputs.
class ModelPair {
 public:
  // Boxes count if their score is above `confidence`.
  ModelPair(const std::shared_ptr<const Model>& a, const std::shared_ptr<const Model>& b,
            double confidence);
  // Throws kInvalidArgument if one of the models does not accept the inputs, or they share no
  // output.
  void Add(std::span<const NamedTensor> inputs);

  const std::vector<Difference>& differences() const { return differences_; }
  // Differences except boxes, whose order may differ.
  std::vector<Difference> Comparable() const;
  // By output; `of` is 0 for outputs without classes and boxes.
  const std::vector<Agreement>& agreements() const { return agreements_; }
  bool HasBoxes(size_t output) const { return boxes_[output]; }

 private:
  const double confidence_;
  ModelRunner a_;
  ModelRunner b_;
  std::vector<Difference> differences_;
  std::vector<Agreement> agreements_;
  std::vector<bool> boxes_;
};

// Prints one line per blob, or JSON with --json. Returns true if all are within the tolerance;
// without one, if all can be compared.
bool PrintOutputs(const std::vector<Difference>& differences,
                  const std::optional<Tolerance>& tolerance);
void PrintLayers(const std::vector<Difference>& differences);
// Returns true if each share of equal classes or boxes is at least `least`.
bool PrintAgreement(const ModelPair& pair, double least);

}  // namespace crema::tools
