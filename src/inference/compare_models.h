// Two models on the same inputs: how far apart are they?
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "inference/model.h"
#include "inference/model_batches.h"

namespace crema {

// Of a blob, over all that was added.
struct Difference {
  std::string blob;
  std::string layer = {};  // that makes it
  double largest = 0;      // max |a - b|; NaN on one side only counts as infinite
  double most = 0;         // max |a|
  double squares = 0;      // sum of (a - b)^2
  double of_all = 0;       // sum of a^2
  std::string note = {};   // what keeps it from being compared: "2x3 and 3x2"

  // |a - b| / |a|, Euclidean.
  double relative() const;
};

// Adds the elements of two arrays of f32, or says in `note` why they cannot be compared.
void AddDifference(const ConstTensorView& a, const ConstTensorView& b, Difference* difference);

// How often two answers agree.
struct Agreement {
  int64_t agree = 0;
  int64_t of = 0;
  double share() const {
    return of == 0 ? 1 : static_cast<double>(agree) / static_cast<double>(of);
  }
};

// How often two arrays of scores, N x classes or N x classes x H x W, have their largest at the
// same class.
void AddTopOne(const ConstTensorView& a, const ConstTensorView& b, Agreement* top);
// Whether they are such arrays, of the same extents.
bool AreScores(const ConstTensorView& a, const ConstTensorView& b);

// How many boxes of two DetectionOutputs, rows of 7, with scores above `least`, have one in the
// other: of the same image and class, overlapping by half (IoU). Of those of the side that has
// more.
void AddBoxes(const ConstTensorView& a, const ConstTensorView& b, double least, Agreement* boxes);
// Whether an output is of that kind.
bool AreBoxes(const BlobInfo& output);

// Options under which every blob of a model can be looked at, in whatever format it lies: the rows
// of production, but nothing fused and no memory shared.
ModelOptions ToBeLookedAt(ModelOptions options);

// The blobs of two models that were made with ToBeLookedAt, by name. Thread safety: one thread.
class LayerComparison {
 public:
  LayerComparison(std::shared_ptr<const Model> a, std::shared_ptr<const Model> b,
                  const ModelOptions& options);
  ~LayerComparison();
  // Inputs of the extents of the last time are cheaper. Throws kInvalidArgument where one of the
  // models does not take them.
  void Add(std::span<const NamedTensor> inputs);
  // In the order of the layers of `a`; blobs that both have.
  const std::vector<Difference>& differences() const { return differences_; }

 private:
  struct Side;

  std::unique_ptr<Side> a_;
  std::unique_ptr<Side> b_;
  std::vector<Difference> differences_;
};

}  // namespace crema
