// What `deploy verify` compares and prints.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "inference/compare_models.h"

namespace crema::tools {

// Values fit where max |a - b| <= atol + rtol * max |a|.
struct Tolerance {
  double atol = 0;
  double rtol = 0;
};

// The outputs of two models on the same inputs.
class ModelPair {
 public:
  // Boxes count where their score is above `confidence`.
  ModelPair(const std::shared_ptr<const Model>& a, const std::shared_ptr<const Model>& b,
            double confidence);
  // Throws kInvalidArgument where one does not take the inputs, or they share no output.
  void Add(std::span<const NamedTensor> inputs);

  const std::vector<Difference>& differences() const { return differences_; }
  // The same without boxes, which may change places.
  std::vector<Difference> Comparable() const;
  // By output; `of` is 0 where there are neither classes nor boxes.
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

// One line a blob, as --json says. Returns whether all are within the tolerance; without one they
// are if they can be compared.
bool PrintOutputs(const std::vector<Difference>& differences,
                  const std::optional<Tolerance>& tolerance);
void PrintLayers(const std::vector<Difference>& differences);
// Returns whether each part of equal classes, or boxes, is at least that.
bool PrintAgreement(const ModelPair& pair, double least);

}  // namespace crema::tools
