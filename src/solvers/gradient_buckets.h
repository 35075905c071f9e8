// Sums gradients over the ranks of a run while the backward pass goes on.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "parallel/collective.h"
#include "runtime/session.h"

namespace crema {

// Groups the gradients of a session into parts that lie together, from the last layers to the
// first. As the observer of the session, starts to sum each part once the backward pass has
// finished it. Thread safety: one thread, that of the session.
class GradientBuckets final : public LayerObserver {
 public:
  // A bucket has `values` values or more. The first and the last one are smaller, so that sums
  // start early and end soon after the pass: the first has a quarter or more, the last a quarter or
  // less, or one blob if that is larger; the one before the last may be smaller too. Session and
  // collective must outlive this.
  GradientBuckets(Session* session, Collective* collective, int rank, size_t values);

  // Makes the next backward pass start the sums: the last one before Finish.
  void Arm();
  // Starts the sums that are left, and waits for all.
  void Finish();

  void AfterBackward(size_t layer, const BackwardArgs& args) override;

 private:
  struct Bucket {
    std::span<float> values;
    size_t after = 0;  // the layer whose backward pass finishes them
  };

  void StartUntil(size_t layer);

  Session& session_;
  Collective& collective_;
  const int rank_;
  std::vector<Bucket> buckets_;
  size_t started_ = 0;
};

}  // namespace crema
