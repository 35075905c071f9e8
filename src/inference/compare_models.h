// Compares two models on the same inputs.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "inference/model.h"
#include "inference/model_batches.h"

namespace crema {

// Difference of a blob over all inputs.
struct Difference {
  std::string blob;
  std::string layer = {};        // producer of the blob
  double largest = 0;            // max |a - b|; NaN on only one side counts as infinite
  double most = 0;               // max |a|
  double squares = 0;            // sum of (a - b)^2
  double reference_squares = 0;  // sum of a^2
  std::string note = {};         // why it cannot be compared: "2x3 and 3x2"

  // |a - b| / |a|, Euclidean norm.
  double relative() const;
};

// Accumulates two f32 arrays, or sets `note` if they cannot be compared.
void AddDifference(const ConstTensorView& a, const ConstTensorView& b, Difference* difference);

// Number of matching answers.
struct Agreement {
  int64_t agree = 0;
  int64_t of = 0;
  double share() const {
    return of == 0 ? 1 : static_cast<double>(agree) / static_cast<double>(of);
  }
};

// Counts how often two score arrays, N x classes or N x classes x H x W, have the same best class.
void AddTopOne(const ConstTensorView& a, const ConstTensorView& b, Agreement* top);
// Returns true for two such arrays of the same shape.
bool AreScores(const ConstTensorView& a, const ConstTensorView& b);

// Counts the boxes of one DetectionOutput (rows of 7) with scores above `least` that match a box of
// the other: same image and class, IoU of at least a half. Relative to the side with more boxes.
void AddBoxes(const ConstTensorView& a, const ConstTensorView& b, double least, Agreement* boxes);
// Returns true for an output of DetectionOutput.
bool AreBoxes(const BlobInfo& output);

// Returns options that keep every blob of a model observable, in any format: the same
// implementations, but no fusion and no shared memory.
ModelOptions ObservableOptions(ModelOptions options);

// Compares the blobs, by name, of two models made with ObservableOptions. Thread safety: one
// thread.
class LayerComparison {
 public:
  LayerComparison(std::shared_ptr<const Model> a, std::shared_ptr<const Model> b,
                  const ModelOptions& options);
  ~LayerComparison();
  // Faster if the shapes equal those of the last call. Throws kInvalidArgument if one of the models
  // does not accept them.
  void Add(std::span<const NamedTensor> inputs);
  // Blobs that both models have, in the order of the layers of `a`.
  const std::vector<Difference>& differences() const { return differences_; }

 private:
  struct Side;

  std::unique_ptr<Side> a_;
  std::unique_ptr<Side> b_;
  std::vector<Difference> differences_;
};

}  // namespace crema
